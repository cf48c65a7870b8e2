"""A step in the recorder's field names: the part of a record that reaches the ranks.

Made from a `Step` or from a recorded schedule, so that the two can be compared; `to_step` is the way back, for steps
that a released scheduler made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stalerow.simulator.conform.trace import ScheduleRecord
from stalerow.simulator.engine.step import BlockLists, CachedBlock, CachedRequest, NewRequest, ScheduledRow, Step

FIELDS = ("step", "inflight_before", "scheduled", "new", "cached", "finished_req_ids", "preempted_req_ids")
BLOCK_FIELDS = ("zero", "copies", "sched_blocks")
SCHEDULER_ONLY = ("placeholders_before", "known_tokens")


def step_record(
    step: Step | ScheduleRecord, inflight: Sequence[int] = (), sampled: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Plain data, in the recorder's names; `inflight` and `sampled` belong to a `Step`."""
    if isinstance(step, ScheduleRecord):
        record: dict[str, Any] = msgspec.to_builtins(step)
        for row in record["scheduled"]:
            for name in SCHEDULER_ONLY:
                del row[name]
        return {name: record[name] for name in (*FIELDS, *BLOCK_FIELDS, "skip_drafts") if name in record}
    counts = sampled or {}
    return {
        "step": step.number,
        "inflight_before": list(inflight),
        "scheduled": [
            {
                "req": row.request,
                "n": row.num_tokens,
                "drafts": row.num_drafts,
                "computed": row.num_computed_tokens,
                "final_or_decode": row.is_final_or_decode,
                "will_sample": counts.get(row.request, 0),
            }
            for row in step.rows
        ],
        "new": [
            {
                "req": new.request,
                "prompt_len": new.prompt_len,
                "prefill_len": len(new.prefill_token_ids),
                "computed": new.num_computed_tokens,
                "block_ids": _lists(new.block_ids),
                "resumed": new.resumed,
                "junction": new.junction,
            }
            for new in step.new
        ],
        "cached": [
            {
                "req": known.request,
                "computed": known.num_computed_tokens,
                "new_block_ids": _lists(known.new_block_ids),
            }
            for known in step.cached
        ],
        "finished_req_ids": list(step.finished),
        "preempted_req_ids": list(step.preempted),
        "zero": list(step.zero),
        "copies": [list(pair) for pair in step.copies],
        "sched_blocks": {key: _lists(lists) for key, lists in step.block_lists.items()},
        "skip_drafts": step.skip_drafts,
    }


def to_step(
    record: ScheduleRecord,
    prefill: Mapping[str, Sequence[int]],
    max_tokens: Mapping[str, int],
    hashed: Mapping[int, CachedBlock],
) -> Step:
    """A recorded schedule as a `Step`. `prefill` holds the tokens of admissions, `max_tokens` every request's cap."""
    return Step(
        number=record.step,
        rows=tuple(ScheduledRow(r.req, r.n, r.drafts, r.computed, r.final_or_decode) for r in record.scheduled),
        new=tuple(
            NewRequest(
                request=new.req,
                prompt_len=new.prompt_len,
                prefill_token_ids=tuple(prefill[new.req]),
                num_computed_tokens=new.computed,
                block_ids=_tuples(new.block_ids),
                resumed=new.resumed,
                junction=new.junction,
                max_tokens=max_tokens[new.req],
            )
            for new in record.new
        ),
        cached=tuple(
            CachedRequest(c.req, c.computed, None if c.new_block_ids is None else _tuples(c.new_block_ids))
            for c in record.cached
        ),
        finished=tuple(record.finished_req_ids),
        preempted=tuple(record.preempted_req_ids),
        zero=tuple(record.zero),
        copies=tuple(record.copies),
        block_lists={key: _tuples(lists) for key, lists in record.sched_blocks.items()},
        hashed=hashed,
        num_free_blocks=record.free_blocks,
        skip_drafts=record.skip_drafts is True,
    )


def _lists(block_ids: BlockLists | None) -> list[list[int]] | None:
    return None if block_ids is None else [list(ids) for ids in block_ids]


def _tuples(block_ids: Sequence[Sequence[int]]) -> BlockLists:
    return tuple(tuple(ids) for ids in block_ids)
