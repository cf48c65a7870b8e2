"""Model Runner V2: batch rows are re-mapped every step, slots persist, and non-last ranks postprocess P steps late.

`host_step` follows the release's order (vLLM 0.32): consume the deferred output, free slots, admit, update, apply the
staged writes, then build the batch, gather, preprocess, precopy, indices, forward, and sample or defer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stalerow.simulator.engine.step import ScheduledRow, Step
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.batch import Batch, batch_order, query_start_loc
from stalerow.simulator.rank.operations import (
    Advance,
    Broadcast,
    FillAccepted,
    Free,
    Gather,
    Indices,
    Operation,
    Postprocess,
    PostUpdate,
    Precopy,
    Preprocess,
    Sample,
    Seat,
    Seed,
    Seeded,
    TableWrite,
    Taken,
)
from stalerow.simulator.rank.ring import DeferredRing, RingEntry
from stalerow.simulator.rank.slots import SlotTable
from stalerow.simulator.rank.wires import SampledOutput


class RankV2(Rank):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.slot_table = SlotTable(self.limits.max_num_seqs)
        self.ring = None if self.is_last else DeferredRing(self.policy.ring_depth(self.pipeline.pp))
        self.block_counts = [[0] * self.max_reqs for _ in self.layout.groups]
        self.computed = [0] * self.max_reqs
        self.prefill_len = [0] * self.max_reqs
        self.length_cap = [0] * self.max_reqs
        self._writes: list[TableWrite] = []
        self._late: list[Operation] = []

    def slot_index(self, request: str) -> int | None:
        return self.slot_table.slot_of.get(request)

    def host_step(self) -> None:
        step = self.inbox.popleft()
        self.policy.step = step.number
        for phase in self.policy.phases:
            getattr(self, phase)(step)
        late, self._late = self._late, []
        if step.rows:
            self.run_batch(step, self.build_batch(step))
        else:
            self.policy.idle_step(self, step)
        for operation in late:
            self.policy.enqueue(self.queue, operation)

    def consume(self, step: Step) -> None:
        """Take the output of step n - P off the ring: bookkeeping and postprocess with that step's mapping."""
        if self.ring is None:
            return
        entry = self.ring.pop()
        if entry is None:
            return
        exclude = self.policy.excluded(entry, self.slot_table.generation).tolist()
        if all(exclude):
            return
        idx_mapping = self.device([-1 if out else slot for out, slot in zip(exclude, entry.slots.tolist())], "int64")
        kept = tuple([r for r, out in zip(entry.requests, exclude) if not out])
        self.push_outcome(entry.step, idx_mapping, entry.requests, entry.slots, None, kept, step.number)

    def push_outcome(
        self,
        of: int,
        idx_mapping: Any,
        requests: tuple[str, ...],
        slots: np.ndarray,
        qsl: Any,
        kept: tuple[str, ...],
        during: int,
    ) -> None:
        """post_update, then num_accepted, then the postprocess copies, for the output of step `of`."""
        num_rows = len(requests)
        wires = self.wires

        def ready() -> bool:
            return of in wires.received

        def bookkeeping() -> None:
            out = wires.sampled[of]
            rejected = self.policy.rejected(self.backend.to_host(out.num_rejected), self.is_last)
            tokens = out.tokens if self.is_last else self._received(out)
            self.ops.post_update(
                self.slots,
                idx_mapping,
                tokens,
                out.num_sampled,
                self.device(rejected, "int32"),
                qsl,
                num_rows,
            )
            self.ops.scatter_accepted(self.slots, idx_mapping, out.num_sampled, num_rows)

        def postprocess() -> None:
            binding = self.binder.get(self.cache)
            self.align.postprocess(self.slots, binding, idx_mapping, num_rows, self.block_size, None)

        output = Taken(of, requests, kept, slots, self.slot_table.holders())
        self.push(PostUpdate(step=during, run=bookkeeping, ready=None if self.is_last else ready, output=output))
        saving = Postprocess(step=during, run=postprocess, output=output)
        if self.policy.late_postprocess:
            self._late.append(saving)
        else:
            self.push(saving)

    def _received(self, out: SampledOutput) -> Any:
        drafted = bool((self.backend.to_host(out.num_sampled) + self.backend.to_host(out.num_rejected) > 1).any())
        return self.backend.from_host(self.policy.received(self.backend.to_host(out.tokens), drafted))

    def free(self, step: Step) -> None:
        left = {}
        for request in self.policy.free_order({*step.finished, *step.preempted}):
            slot = self.slot_table.release(request, step.number)
            if slot is not None:
                left[request] = slot

        def run() -> None:
            if left:
                columns = self.backend.to_host(self.slots.state_idx)
                self.policy.leaving(left, lambda request: int(columns[left[request]]))

        self.push(Free(step=step.number, run=run, taken=step))

    def admit(self, step: Step) -> None:
        seats = []
        for new in step.new:
            slot = self.slot_table.take(new.request, self.policy.take_slot)
            reused = self.slot_table.freed_at.get(slot)
            self.prefill_len[slot] = len(new.prefill_token_ids)
            self.length_cap[slot] = new.prompt_len + new.max_tokens
            self.computed[slot] = new.num_computed_tokens
            for group, ids in enumerate(new.block_ids):
                if ids:
                    self._writes.append(TableWrite(group, slot, 0, ids))
                self.block_counts[group][slot] = len(ids)
            seats.append(Seat(slot, new, reused))
        self.push_admit(step, seats)
        if seats:
            self._push_seeds(step.number, seats)

    def _push_seeds(self, step: int, seats: Sequence[Seat]) -> None:
        """Seed per-slot state. Counts go through staging buffers; columns and accepted counts are plain fills."""
        stage = self.staging.stage
        slots, admitted = tuple([seat.slot for seat in seats]), [seat.new for seat in seats]
        computed = tuple([new.num_computed_tokens for new in admitted])
        total = tuple([len(new.prefill_token_ids) for new in admitted])
        width = self.backend.to_host(self.slots.token_ids).shape[1]
        tokens = np.zeros((len(seats), width), dtype=np.int32)
        for i, new in enumerate(admitted):
            tokens[i, : len(new.prefill_token_ids)] = new.prefill_token_ids
        reads = [stage("seed_slots", slots), stage("seed_computed", computed), stage("seed_total", total)]
        token_array, count = self.device(tokens, "int32"), len(seats)

        def run() -> None:
            where, counts, totals = (self.device(read(), "int32") for read in reads)
            columns = self.device([self.policy.seed_column(new, self.block_size) for new in admitted], "int32")
            known = self.backend.to_host(self.slots.num_accepted)
            accepted = [self.policy.seed_accepted(new) for new in admitted]
            values = [known[s] if a is None else a for s, a in zip(slots, accepted)]
            taken = self.device(values, "int32")
            self.ops.seed_slots(self.slots, where, columns, taken, counts, totals, token_array, count)
            handed = (self.backend.to_host(array).tolist() for array in (where, columns, taken, counts, totals))
            self.seeded = [Seeded(*row) for row in zip(*handed)]

        self.push(Seed(step=step, run=run, seats=seats))

    def update(self, step: Step) -> None:
        for known in step.cached:
            slot = self.slot_table.slot_of[known.request]
            self.computed[slot] = known.num_computed_tokens
            for group, ids in enumerate(known.new_block_ids or ()):
                if ids:
                    start = self.block_counts[group][slot]
                    self._writes.append(TableWrite(group, slot, start, ids))
                    self.block_counts[group][slot] = start + len(ids)
        self.push_zero_and_copies(step)

    def apply(self, step: Step) -> None:
        writes, self._writes = self._writes, []
        self.push_table_writes(step.number, writes)
        self.push_block_counts(step.number, self.block_counts)

    def build_batch(self, step: Step) -> Batch:
        rows = batch_order(step, self.pipeline.drafts + 1)
        requests = tuple([row.request for row in rows])
        slots, decodes, tails, needs_output = [], list[bool](), list[bool](), list[bool]()
        for row in rows:
            slot = self.slot_table.slot_of[row.request]
            computed, prefill = self.computed[slot], self.prefill_len[slot]
            prefilling = computed < prefill
            slots.append(slot)
            decodes.append(not prefilling)
            tails.append(prefilling and row.num_tokens - row.num_drafts == 1)
            # A request that ends with its first token has no use for another one.
            capped = prefilling and prefill + 1 >= self.length_cap[slot]
            needs_output.append(self.policy.needs_output(computed + row.num_tokens, prefill, capped))
        if any(tails):
            decodes = self._with_tails(rows, slots, decodes, tails)
        width = self.pipeline.drafts + 1
        uniform = all(decodes) and all(row.num_tokens == width for row in rows)
        return Batch(
            step=step.number,
            rows=tuple(rows),
            requests=requests,
            slots=np.array(slots, dtype=np.int64),
            query_start_loc=query_start_loc(rows, self.max_reqs + 1),
            is_spec=np.array(decodes if self.pipeline.drafts else [False] * len(rows)),
            needs_output=np.array(needs_output),
            num_padded=self.policy.padded_rows(len(rows), uniform),
        )

    def _with_tails(
        self, rows: Sequence[ScheduledRow], slots: Sequence[int], decodes: Sequence[bool], tails: Sequence[bool]
    ) -> list[bool]:
        """`decodes`, and those of the one-token prompt tails that the policy runs as decodes too."""
        done = np.array([min(self.computed[slot], self.prefill_len[slot]) for slot in slots])
        runs = self.policy.runs_as_decode(done, np.array([row.num_drafts for row in rows]))
        return [decode or (tail and bool(run)) for decode, tail, run in zip(decodes, tails, runs)]

    def run_batch(self, step: Step, batch: Batch) -> None:
        number, num_rows, padded = step.number, batch.num_rows, batch.num_padded
        idx_mapping = self.device(batch.slots, "int64")
        qsl = self.device(batch.query_start_loc, "int32")
        zero_padding = self.policy.zero_padding

        def gather() -> None:
            self.ops.gather(self.tables, idx_mapping, num_rows, padded, zero_padding)
            self.ops.seq_lens(self.slots, idx_mapping, qsl, num_rows, padded, self.seq_lens)
            self.gathered_step = number

        def precopy() -> None:
            self.align.precopy(self.slots, self.binder.get(self.cache), idx_mapping, num_rows)

        def preprocess() -> None:
            self.align.preprocess(self.slots, idx_mapping, qsl, num_rows, self.block_size)

        def indices() -> None:
            binding = self.binder.get(self.cache)
            self.align.aligned_indices(binding, self.seq_lens, padded, self.block_size, self.state_indices)

        self.push(Gather(step=number, run=gather, batch=batch))
        self.push(Preprocess(step=number, run=preprocess, batch=batch))
        self.push(Precopy(step=number, run=precopy, batch=batch))
        self.push(Indices(step=number, run=indices, batch=batch))
        self.push_forward(batch, idx_mapping)
        if self.is_last:
            self._sample(batch, idx_mapping, qsl)
        else:
            self._defer(batch, idx_mapping, qsl)

    def _sample(self, batch: Batch, idx_mapping: Any, qsl: Any) -> None:
        number, wires = batch.step, self.wires

        def sample() -> None:
            wires.sampled[number] = self.sampler_output(batch)
            wires.outputs.add(number)

        self.push(Sample(step=number, run=sample, batch=batch))
        self.push_outcome(number, idx_mapping, batch.requests, batch.slots, qsl, batch.requests, number)
        if self.pipeline.pp > 1 and any(batch.needs_output.tolist()):
            self.side.push(
                Broadcast(step=number, run=lambda: wires.received.add(number), ready=lambda: number in wires.sampled)
            )

    def _defer(self, batch: Batch, idx_mapping: Any, qsl: Any) -> None:
        """Non-last rank: remember the batch for P steps, count optimistically, neutralise num_accepted if needed."""
        assert self.ring is not None
        needs_output = batch.needs_output.tolist()
        if any(needs_output):
            self.ring.fill(
                RingEntry(
                    batch.step,
                    batch.requests,
                    batch.slots,
                    self.slot_table.generation[batch.slots].copy(),
                    batch.needs_output,
                )
            )
        num_rows = batch.num_rows

        def advance() -> None:
            self.ops.advance_computed(self.slots, idx_mapping, qsl, num_rows)

        self.push(Advance(step=batch.step, run=advance, batch=batch))
        if not all(needs_output):

            def fill() -> None:
                self.ops.fill_accepted(self.slots, idx_mapping, 1, num_rows)

            self.push(FillAccepted(step=batch.step, run=fill, batch=batch))
