"""What both runners share: a rank's memory, its device queue, and the operations that do not depend on the runner.

The host side (`host_step`) enqueues operations for one engine step; the device side (`execute`) runs the oldest queued
operation. Kernels come from the kernel set; numbers come from the engine's steps and the rank's own tables only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Protocol

import numpy as np

from stalerow.kernels.base.binding import Cache
from stalerow.kernels.base.memory import POISON, BlockTables, Pool, SlotState
from stalerow.kernels.own.operators import ForwardStep
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.profiles import profile as find_profile
from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.batch import Batch
from stalerow.simulator.rank.device import DeviceQueue
from stalerow.simulator.rank.operations import (
    Admit,
    BlockCounts,
    CopyBlocks,
    Forward,
    Operation,
    Seat,
    Seeded,
    TableWrite,
    Writes,
    Zero,
)
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.staging import StagingPool
from stalerow.simulator.rank.wires import SampledOutput, Wires
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.model import Model

LOOKAHEAD_COLUMNS = 4
PADDED_ROW_BYTE = 0xD5


class Harness(Protocol):
    """What the oracle tells a rank: which recurrent blocks change hands when it takes a step's admissions."""

    def poison(self, step: Step) -> list[int]: ...


class Rank:
    """One pipeline rank. `index` counts from 0; the last one samples."""

    def __init__(
        self,
        index: int,
        schedule: Schedule,
        kernels: KernelSet,
        wires: Wires,
        model: Model,
        policy: RankPolicy,
    ) -> None:
        self.index, self.schedule, self.kernels = index, schedule, kernels
        self.wires, self.model, self.policy = wires, model, policy
        self.pipeline, self.limits, self.layout = schedule.pipeline, schedule.limits, schedule.layout
        self.is_last = index == self.pipeline.pp - 1
        policy.rank = index
        self.ops, self.align, self.backend = kernels.ops, kernels.align, kernels.backend
        self.inbox: deque[Step] = deque()
        self.queue = DeviceQueue()
        self.side = DeviceQueue()
        in_flight = self.pipeline.pp + int(self.pipeline.async_scheduling)
        self.staging = StagingPool(policy.staging_depth(in_flight))
        self._stages_contents = find_profile(self.pipeline.profile).stages_table_contents
        self.block_size = self.layout.recurrent_block_size
        self.num_units = len(self.layout.states) + len(self.layout.attention_groups) * self.layout.layers
        self._allocate()
        self.binder = policy.binder(self)
        self.gathered_step: int | None = None
        self.seeded: Sequence[Seeded] = ()
        self.harness: Harness
        self.arriving: Any = None
        self.leaving: Any = None
        self.damage: Any = None
        self.forwarded: ForwardStep | None = None

    def _allocate(self) -> None:
        layout, limits, backend = self.layout, self.limits, self.backend
        self.span = span = limits.max_model_len + 2 * (self.pipeline.drafts + 1)
        smallest = min(g.block_size for g in layout.groups)
        self.max_blocks = -(-span // smallest) + self.pipeline.drafts + LOOKAHEAD_COLUMNS
        self.max_reqs = max(limits.max_num_seqs, *limits.graph_sizes, 1)
        self.pool = Pool(layout, backend)
        self.tables = BlockTables(layout, self.max_reqs, self.max_blocks, backend)
        self.slots = SlotState(self.max_reqs, span, backend)
        self.cache = Cache(layout, self.pool, self.tables, cache_id=0)
        self.state_indices = backend.alloc(
            (len(layout.recurrent_groups), self.max_reqs, self.pipeline.drafts + 1), "int32"
        )
        self.seq_lens = backend.alloc((self.max_reqs,), "int32")

    def host_step(self) -> None:
        """Take the next engine step from the inbox and enqueue its operations."""
        raise NotImplementedError

    def host_ready(self) -> bool:
        return bool(self.inbox)

    def slot_index(self, request: str) -> int | None:
        """Index of a request's values in the per-slot arrays, None if it has none."""
        raise NotImplementedError

    def execute(self) -> Operation:
        """Run the oldest queued operation of the main stream."""
        operation = self.queue.pop()
        operation.run()
        return operation

    def after_failed(self, operation: Operation) -> None:
        """Keep the pipeline going after an operation was refused: a refused forward passes its input on."""
        if isinstance(operation, Forward):
            num_rows = operation.batch.num_rows
            key = (self.index - 1, operation.step)
            arriving = self.wires.activations.pop(key, None) if self.index else None
            self.wires.activations[self.index, operation.step] = (
                self.device([0] * num_rows, "int64") if arriving is None else arriving
            )

    def execute_side(self) -> Operation:
        operation = self.side.pop()
        operation.run()
        return operation

    def push(self, operation: Operation) -> None:
        """Enqueue on the main stream, where the policy puts it."""
        self.policy.enqueue(self.queue, operation)

    def device(self, values: Sequence[int] | np.ndarray, dtype: str) -> Any:
        """A new device array holding `values` (a stream-ordered copy: safe against host lag)."""
        return self.backend.from_host(np.asarray(values, dtype=dtype))

    def push_zero_and_copies(self, step: Step) -> None:
        """Zero newly allocated blocks, then apply copy-on-write copies (vLLM 0.32's order)."""
        zero = list(self.policy.blocks_to_zero(step))
        if zero:
            ids = self.device(zero, "int32")
            self.push(
                Zero(step=step.number, run=lambda: self.ops.fill_blocks(self.pool, ids, len(zero), 0), blocks=zero)
            )
        if step.copies:
            source = self.device([s for s, _ in step.copies], "int32")
            target = self.device([d for _, d in step.copies], "int32")
            count = len(step.copies)
            self.push(
                CopyBlocks(
                    step=step.number,
                    run=lambda: self.ops.copy_blocks(self.pool, source, target, count),
                    pairs=step.copies,
                )
            )

    def push_admit(self, step: Step, seats: Sequence[Seat]) -> None:
        """Where the rank takes a step's admissions: blocks change hands, and recurrent ones are poisoned (harness)."""

        def run() -> None:
            blocks = self.harness.poison(step)
            if blocks:
                self.ops.fill_blocks(self.pool, self.device(blocks, "int32"), len(blocks), POISON)

        self.push(Admit(step=step.number, run=run, taken=step, seats=seats))

    def push_table_writes(self, step: int, writes: Sequence[TableWrite]) -> None:
        """Stage block-table writes; what is staged is read when the device gets there, block ids too from 0.34 on."""
        if not writes:
            return
        stage = self.staging.stage
        groups, rows, starts, ids = zip(*writes)
        lens = tuple(accumulate(map(len, ids)))
        reads = stage("groups", groups), stage("rows", rows), stage("starts", starts)
        read_lens = stage("lens", lens)
        flat = tuple(chain.from_iterable(ids))
        copied = None if self._stages_contents else self.device(flat, "int32")
        read_contents = stage("contents", flat) if self._stages_contents else None
        count, total = len(writes), lens[-1]

        def run() -> None:
            g, r, s = [self.device(read(), "int32") for read in reads]
            # An overwritten buffer must not read past this step's contents, nor backwards.
            ends = list(accumulate([min(n, total) for n in read_lens()], max))
            contents = copied if read_contents is None else self.device(read_contents(), "int32")
            self.ops.apply_writes(self.tables, g, r, s, self.device(ends, "int32"), contents, count)

        self.push(Writes(step=step, run=run, writes=writes))

    def push_block_counts(self, step: int, counts: Sequence[Sequence[int]]) -> None:
        """Stage the number of blocks of every group and slot."""
        read = self.staging.stage("num_blocks", tuple(chain.from_iterable(counts)))
        shape = len(counts), len(counts[0])

        def run() -> None:
            values = np.array(read(), dtype=np.int32).reshape(shape)
            self.ops.set_num_blocks(self.tables, self.device(values, "int32"))

        self.push(BlockCounts(step=step, run=run, counts=[tuple(of_group) for of_group in counts]))

    def push_forward(self, batch: Batch, idx_mapping: Any) -> None:
        """The stand-in forward: waits for the previous rank's activations and leaves its own for the next."""
        step, rank, wires = batch.step, self.index, self.wires
        is_spec = self.device(batch.is_spec, "int32")
        qsl = self.device(batch.query_start_loc, "int32")
        num_rows = batch.num_rows

        def run() -> None:
            arriving = wires.activations.pop((rank - 1, step)) if rank else self.device([0] * num_rows, "int64")
            damage = self.backend.alloc((num_rows, self.num_units), "int64")
            leaving = self.backend.alloc(num_rows, "int64")
            inputs = ForwardStep(
                idx_mapping=idx_mapping,
                query_start_loc=qsl,
                seq_lens=self.seq_lens,
                state_indices=self.state_indices,
                is_spec=is_spec,
                hashes=self.device(self.model.hash_table(step, batch.rows, self.span + 1), "int64"),
                activation_in=arriving,
                num_rows=num_rows,
            )
            self.ops.forward(self.pool, self.tables, self.slots, inputs, damage, leaving)
            self.write_padded_rows(num_rows, batch.num_padded)
            self.arriving, self.damage, self.leaving, self.forwarded = arriving, damage, leaving, inputs
            wires.activations[rank, step] = leaving

        def ready() -> bool:
            return rank == 0 or (rank - 1, step) in wires.activations

        self.push(Forward(step=step, run=run, ready=ready, batch=batch))

    def write_padded_rows(self, num_rows: int, num_padded: int) -> None:
        """Under a captured graph the padded rows write states too, to the null block; that sink is not modelled."""
        if num_padded > num_rows:
            named = self.state_indices[:, num_rows:num_padded, 0].reshape(-1)
            self.ops.fill_blocks(self.pool, named - (named == 0) * 1, len(named), PADDED_ROW_BYTE)

    def sampler_output(self, batch: Batch) -> SampledOutput:
        """What the last rank samples, as the model says."""
        made = self.model.sample(batch.step, batch.rows, lambda: self.backend.to_host(self.leaving)[: batch.num_rows])
        tokens = np.zeros((batch.num_rows, self.pipeline.drafts + 1), dtype=np.int64)
        for row, ids in zip(tokens, made.tokens):
            row[: len(ids)] = ids
        return SampledOutput(
            batch.requests,
            self.device(tokens, "int64"),
            self.device(made.num_sampled, "int32"),
            self.device(made.num_rejected, "int32"),
        )
