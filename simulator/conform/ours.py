"""Runs a recorded workload through our engine and writes down the same records as the recorder.

In: options, workload, and how many tokens each sampling row returns (from the recording). Out: one record per
schedule and per processed output, in the order in which the released engine's loop produces them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from stalerow.simulator.conform.tokens import next_token, stream_token
from stalerow.simulator.conform.trace import (
    CachedRecord,
    Counters,
    NewRecord,
    Record,
    ScheduledRecord,
    ScheduleRecord,
    StateRecord,
    TraceRequest,
    UpdateRecord,
    Workload,
)
from stalerow.simulator.engine import EngineConfig, EngineCore, Profile, Step
from stalerow.simulator.engine.request import Request
from stalerow.simulator.engine.step import BlockLists


class OurRun:
    """One run. `returns` maps (step, request) to the number of tokens that the sampler returns there."""

    def __init__(
        self,
        config: EngineConfig,
        profile: Profile,
        workload: Workload,
        returns: Mapping[tuple[int, str], int],
    ) -> None:
        self.core = EngineCore(config, profile)
        self._workload = workload
        self._returns = returns
        self._true_tokens: dict[str, list[int]] = {}
        self._step = 0

    def records(self, max_iterations: int) -> Iterator[Record]:
        """Run the engine's loop for at most `max_iterations` iterations, or until nothing is left to do."""
        last = max((request.arrival for request in self._workload.requests), default=1)
        for iteration in range(1, max_iterations + 1):
            for request in self._workload.requests:
                if request.arrival == iteration:
                    self._add(request)
            if self.core.has_requests:
                yield self._schedule()
                if self.core.can_schedule:
                    continue
            if self.core.inflight:
                yield self._process()
            elif iteration >= last:
                return

    def _add(self, request: TraceRequest) -> None:
        prompt = self._prompt(request)
        self._true_tokens[request.id] = list(prompt)
        self.core.add_request(request.id, prompt, request.max_tokens, request.stop_token_ids, request.options)

    def _prompt(self, request: TraceRequest) -> list[int]:
        prefix: list[int] = []
        if request.share is not None:
            source, count = request.share
            count = min(count, request.prompt_len)
            if str(source).startswith("req:"):
                prefix = self._continued(str(source)[4:], count)
            else:
                prefix = [stream_token(source, index) for index in range(count)]
        return prefix + [stream_token(request.seed, index) for index in range(len(prefix), request.prompt_len)]

    def _continued(self, request_id: str, count: int) -> list[int]:
        """The first `count` tokens of another request, as far as the model would go on."""
        tokens = self._true_tokens[request_id]
        while len(tokens) < count:
            tokens.append(next_token(tokens))
        return tokens[:count]

    def _abort(self, step: int, phase: str) -> list[str]:
        ids = [abort.id for abort in self._workload.aborts if abort.step == step and abort.phase == phase]
        self.core.abort(ids)
        return ids

    def _schedule(self) -> ScheduleRecord:
        core = self.core
        aborted = self._abort(self._step + 1, "pre_schedule")
        resets = [core.reset_prefix_cache(r.running) for r in self._workload.resets if r.step == self._step + 1]
        inflight = list(core.inflight)
        known = core.scheduler.requests
        before = {key: (request.num_output_placeholders, request.num_tokens) for key, request in known.items()}
        step = core.schedule()
        self._step = step.number
        return ScheduleRecord(
            step=step.number,
            inflight_before=inflight,
            scheduled=self._rows(step, before),
            total=step.num_tokens,
            running=list(core.running),
            waiting=list(core.waiting),
            sched_blocks={key: [list(ids) for ids in lists] for key, lists in step.block_lists.items()},
            free_blocks=core.num_free_blocks,
            deferred_frees=0,
            new=[
                NewRecord(
                    req=new.request,
                    prompt_len=new.prompt_len,
                    prefill_len=len(new.prefill_token_ids),
                    computed=new.num_computed_tokens,
                    block_ids=[list(ids) for ids in new.block_ids],
                    resumed=new.resumed,
                    junction=new.junction,
                )
                for new in step.new
            ],
            cached=[
                CachedRecord(
                    req=row.request,
                    computed=row.num_computed_tokens,
                    new_block_ids=_lists(row.new_block_ids),
                )
                for row in step.cached
            ],
            finished_req_ids=list(step.finished),
            preempted_req_ids=list(step.preempted),
            zero=list(step.zero),
            copies=list(step.copies),
            aborts_before_schedule=aborted,
            resets_before_schedule=resets,
            skip_drafts=step.skip_drafts,
        )

    def _rows(self, step: Step, before: Mapping[str, tuple[int, int]]) -> list[ScheduledRecord]:
        return [
            ScheduledRecord(
                req=row.request,
                n=row.num_tokens,
                drafts=row.num_drafts,
                computed=row.num_computed_tokens,
                placeholders_before=before[row.request][0],
                known_tokens=before[row.request][1],
                final_or_decode=row.is_final_or_decode,
                will_sample=self._num_returned(step.number, row.request) if row.is_final_or_decode else 0,
            )
            for row in step.rows
        ]

    def _num_returned(self, step: int, request_id: str) -> int:
        return self._returns.get((step, request_id), 1)

    def _process(self) -> UpdateRecord:
        core = self.core
        aborted = self._abort(self._step, "pre_update")
        step = core.inflight_steps[0]
        counts = {
            row.request: self._num_returned(step.number, row.request) if row.is_final_or_decode else 0
            for row in step.rows
        }
        before = {key: _counters(request) for key in counts if (request := core.request(key)) is not None}
        delivered = core.process({key: self._sample(key, counts[key]) for key in before})
        return UpdateRecord(
            processed_step=delivered.step,
            after_schedule_of=self._step,
            sampled=counts,
            delivered=dict(delivered.outputs),
            state={key: StateRecord(counters, _counters_or_freed(core, key)) for key, counters in before.items()},
            aborts_before_update=aborted,
            ignored_already_gone=list(delivered.ignored),
        )

    def _sample(self, request_id: str, count: int) -> list[int]:
        tokens = list(self.core.token_ids(request_id))
        length = len(tokens)
        for _ in range(count):
            tokens.append(next_token(tokens))
        return tokens[length:]


def _counters(request: Request) -> Counters:
    return (
        request.num_computed_tokens,
        request.num_output_placeholders,
        request.num_stale_output_tokens,
        request.status.value,
    )


def _counters_or_freed(core: EngineCore, request_id: str) -> Counters | Literal["freed"]:
    request = core.request(request_id)
    return "freed" if request is None else _counters(request)


def _lists(block_ids: BlockLists | None) -> list[list[int]] | None:
    return None if block_ids is None else [list(ids) for ids in block_ids]
