"""Model Runner V1: batch rows are the persistent index, condensed as requests leave; one table set serves everything.

There is no row mapping, so both kernel variants see the same row. Scheduling is synchronous with pipeline parallelism.
Every rank postprocesses within the step, with the rows of that step, as V1 does where the last rank's output is
broadcast to all ranks before they go on; the host waits for the device between steps, since it needs the counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stalerow.kernels.align.kernels import StepCounts
from stalerow.simulator.engine.step import ScheduledRow, Step
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.batch import Batch, query_start_loc
from stalerow.simulator.rank.operations import (
    CommitRows,
    Free,
    Indices,
    Postprocess,
    Precopy,
    Sample,
    ScatterAccepted,
    Seat,
    TableWrite,
    Taken,
)


class _Known:
    """What V1's host keeps of a request, in or out of the batch."""

    def __init__(self, computed: int, prefill_len: int, cap: int, tokens: tuple[int, ...], groups: int) -> None:
        self.computed, self.prefill_len, self.cap = computed, prefill_len, cap
        self.blocks: list[list[int]] = [[] for _ in range(groups)]
        self.tokens = tokens
        self.column: int | None = None
        self.seed_column = -1
        self.accepted = 1


def _or_else(column: int | None, default: int) -> int:
    return default if column is None else column


class RankV1(Rank):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tables.gathered = self.tables.persistent
        self.tables.gathered_ptrs = self.tables.persistent_ptrs
        self.known: dict[str, _Known] = {}
        self.batch_rows: list[str] = []
        self._last_batch: Batch | None = None

    def slot_index(self, request: str) -> int | None:
        return self.batch_rows.index(request) if request in self.batch_rows else None

    def host_ready(self) -> bool:
        return bool(self.inbox) and not len(self.queue)

    def host_step(self) -> None:
        step = self.inbox.popleft()
        self.policy.step = step.number
        self._read_back()
        self._update_requests(step)
        if not step.rows:
            return
        batch = self._build_batch(step)
        self._run_batch(step, batch)

    def _read_back(self) -> None:
        """Accepted counts of the last batch, copied to the host when its postprocess was done."""
        if self._last_batch is None:
            return
        accepted = self.backend.to_host(self.slots.num_accepted)
        for row, request in enumerate(self._last_batch.requests):
            if request in self.known:
                self.known[request].accepted = int(accepted[row])
        self._last_batch = None

    def _update_requests(self, step: Step) -> None:
        gone = [r for r in sorted({*step.finished, *step.preempted}) if r in self.known]
        self.policy.leaving(gone, lambda request: _or_else(self.known[request].column, -1))
        for request in gone:
            del self.known[request]
        self.push(Free(step=step.number, run=lambda: None, taken=step))
        for new in step.new:
            made = _Known(
                new.num_computed_tokens,
                len(new.prefill_token_ids),
                new.prompt_len + new.max_tokens,
                new.prefill_token_ids,
                len(self.layout.groups),
            )
            made.blocks = [list(ids) for ids in new.block_ids]
            made.seed_column = self.policy.seed_column(new, self.block_size)
            self.known[new.request] = made
        for cached in step.cached:
            known = self.known[cached.request]
            known.computed = cached.num_computed_tokens
            for group, ids in enumerate(cached.new_block_ids or ()):
                known.blocks[group].extend(ids)
        self.push_admit(step, [Seat(-1, new, None) for new in step.new])
        self.push_zero_and_copies(step)

    def _build_batch(self, step: Step) -> Batch:
        """Drop unscheduled rows, fill the holes from the end, append newcomers, move decodes to the front."""
        by_request = {row.request: row for row in step.rows}
        rows: list[str | None] = [r if r in by_request else None for r in self.batch_rows]
        for request in by_request:
            if request not in rows:
                if None in rows:
                    rows[rows.index(None)] = request
                else:
                    rows.append(request)
        while None in rows:
            hole = rows.index(None)
            last = rows.pop()
            if hole < len(rows):
                rows[hole] = last
        kept = [r for r in rows if r is not None]
        width = self.pipeline.drafts + 1
        kept.sort(key=lambda r: by_request[r].num_tokens > width)
        self.batch_rows = kept
        ordered = [by_request[r] for r in kept]
        return self._batch(step, ordered)

    def _batch(self, step: Step, rows: list[ScheduledRow]) -> Batch:
        known = [self.known[r.request] for r in rows]
        tokens = np.array([r.num_tokens for r in rows])
        drafts = np.array([r.num_drafts for r in rows])
        computed = np.array([k.computed for k in known])
        prefill = np.array([k.prefill_len for k in known])
        prefilling = np.minimum(computed, prefill) < prefill
        tail = prefilling & (tokens - drafts == 1) & self.policy.runs_as_decode(computed, drafts)
        return Batch(
            step=step.number,
            rows=tuple(rows),
            requests=tuple(r.request for r in rows),
            slots=np.arange(len(rows), dtype=np.int64),
            query_start_loc=query_start_loc(rows, self.max_reqs + 1),
            is_spec=(~prefilling | tail) & (self.pipeline.drafts > 0),
            needs_output=computed + tokens >= prefill,
            num_padded=len(rows),
        )

    def _run_batch(self, step: Step, batch: Batch) -> None:
        number, num_rows = step.number, batch.num_rows
        known = [self.known[r] for r in batch.requests]
        size = self.block_size
        before = [_or_else(k.column, k.seed_column) for k in known]
        after = [-(-(k.computed + r.num_tokens) // size) - 1 for k, r in zip(known, batch.rows)]
        moved = [b >= 0 and b != a for b, a in zip(before, after)]
        bias = [k.accepted - 1 if m else 0 for k, m in zip(known, moved)]
        for k, column, move in zip(known, after, moved):
            k.column = column
            k.accepted = 1 if move else k.accepted
        staged = {
            "state_idx": after,
            "src_col": [b if m else -1 for b, m in zip(before, moved)],
            "src_off": bias,
            "num_accepted": [k.accepted for k in known],
            "num_computed": [k.computed for k in known],
        }
        self._push_rows(number, batch, known, staged)
        rows_are_slots = self.device(batch.slots, "int64")
        qsl = self.device(batch.query_start_loc, "int32")

        def precopy() -> None:
            self.align.precopy(self.slots, self.binder.get(self.cache), None, num_rows)

        def indices() -> None:
            self.ops.seq_lens(self.slots, rows_are_slots, qsl, num_rows, num_rows, self.seq_lens)
            self.align.aligned_indices(self.binder.get(self.cache), self.seq_lens, num_rows, size, self.state_indices)

        self.push(Precopy(step=number, run=precopy, batch=batch))
        self.push(Indices(step=number, run=indices, batch=batch))
        self.push_forward(batch, rows_are_slots)
        self._push_outcome(batch, rows_are_slots)
        self._last_batch = batch

    def _push_rows(self, number: int, batch: Batch, known: list[_Known], staged: dict[str, list[int]]) -> None:
        """Write whole table rows and the per-row counts, as V1 commits its batch before every step."""
        writes = [
            TableWrite(group, row, 0, tuple(ids))
            for row, k in enumerate(known)
            for group, ids in enumerate(k.blocks)
            if ids
        ]
        self.push_table_writes(number, writes)
        tokens_of = []
        for request, row in zip(batch.requests, batch.rows):
            made, prompt = self.model.known_tokens(number, row), self.known[request].tokens
            tokens_of.append(made if len(made) > len(prompt) else prompt)

        def run() -> None:
            host = self.backend.to_host
            for name, values in staged.items():
                array = getattr(self.slots, name)
                full = np.array(host(array))
                full[: len(values)] = values
                self.backend.write(array, full)
            tokens, total = np.array(host(self.slots.token_ids)), np.array(host(self.slots.total_len))
            last = np.array(host(self.slots.last_token))
            for i, ids in enumerate(tokens_of):
                tokens[i, : len(ids)], total[i], last[i] = ids, len(ids), ids[-1]
            self.backend.write(self.slots.token_ids, tokens)
            self.backend.write(self.slots.total_len, total)
            self.backend.write(self.slots.last_token, last)

        self.push(CommitRows(step=number, run=run, batch=batch))

    def _push_outcome(self, batch: Batch, rows_are_slots: Any) -> None:
        number, num_rows, wires = batch.step, batch.num_rows, self.wires
        scheduled = self.device([r.num_tokens for r in batch.rows], "int32")
        computed = self.device([self.known[r].computed for r in batch.requests], "int32")
        drafts = self.device([r.num_drafts for r in batch.rows], "int32")

        def sample() -> None:
            wires.sampled[number] = self.sampler_output(batch)
            wires.outputs.add(number)
            wires.received.add(number)

        if self.is_last:
            self.push(Sample(step=number, run=sample, batch=batch))

        def scatter() -> None:
            self.ops.scatter_accepted(self.slots, rows_are_slots, wires.sampled[number].num_sampled, num_rows)

        def postprocess() -> None:
            if self.pipeline.drafts:
                self.align.postprocess(
                    self.slots,
                    self.binder.get(self.cache),
                    None,
                    num_rows,
                    self.block_size,
                    StepCounts(scheduled, computed, drafts),
                )

        output = Taken(number, batch.requests, batch.requests, batch.slots, dict(enumerate(batch.requests)))
        self.push(ScatterAccepted(step=number, run=scatter, ready=lambda: number in wires.received, output=output))
        self.push(Postprocess(step=number, run=postprocess, output=output))
