"""The programs of one launch in a drawn order: what a GPU is free to do, made repeatable.

`ProgramAlign` runs the copy launches of the reference as separate programs, one per (row, state); `interpreted` does
the same to launches in Triton's interpreter. The order comes from the schedule's seed and the number of the launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stalerow.kernels.align.copy import copy_state
from stalerow.kernels.align.kernels import StepCounts
from stalerow.kernels.base.binding import Binding, HostState
from stalerow.kernels.base.memory import SlotState
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults.base import Wrapped
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.values import Schedule


class DrawnOrder:
    """Permutations from a schedule: the same for equal schedules, another one for every launch."""

    def __init__(self, schedule: Schedule) -> None:
        self.chooser = SeededChooser(0x5EED ^ (schedule.draw.seed if schedule.draw else 0))

    def permutation(self, n: int) -> list[int]:
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.chooser.pick(i + 1, "program")
            order[i], order[j] = order[j], order[i]
        return order


class ProgramAlign(Wrapped):
    """The reference's precopy and postprocess, program by program.

    `snapshots`: whether decisions read a snapshot of num_accepted, as they must.
    """

    snapshots = True

    def __init__(self, kernels: KernelSet, schedule: Schedule, fault: str) -> None:
        super().__init__(kernels.align)
        if kernels.backend.name != "numpy":
            raise UsageError(f"fault {fault!r} needs a reference kernel set: use --kernels reference:req-idx")
        self.order = DrawnOrder(schedule)

    def copy(self, binding: Binding, state: HostState, row: int, source: int, target: int, bias: int) -> None:
        """One program's copy."""
        copy_state(binding, state, row, source, target, bias)

    def precopy(self, slots: SlotState, binding: Binding, idx_mapping: Any, num_rows: int) -> None:
        for row, slot, state in self._programs(binding, idx_mapping, num_rows):
            source, target = int(slots.src_col[slot]), int(slots.state_idx[slot])
            if source >= 0 and source != target:
                self.copy(binding, state, row, source, target, int(slots.src_off[slot]))

    def postprocess(
        self,
        slots: SlotState,
        binding: Binding,
        idx_mapping: Any,
        num_rows: int,
        block_size: int,
        counts: StepCounts | None = None,
    ) -> None:
        slots.num_accepted_snapshot[...] = slots.num_accepted
        accepted_of = slots.num_accepted_snapshot if self.snapshots else slots.num_accepted
        for row, slot, state in self._programs(binding, idx_mapping, num_rows):
            accepted = int(accepted_of[slot])
            if counts is None:
                total = int(slots.num_computed[slot])
            else:
                total = int(counts.num_computed[slot]) + int(counts.num_scheduled[slot])
                total += accepted - 1 - int(counts.num_drafts[slot])
            first, aligned = total - accepted + 1, total // block_size * block_size
            if aligned < first:
                continue
            running, target = int(slots.state_idx[slot]), aligned // block_size - 1
            if running == target and state is binding.host_states[0]:
                slots.num_accepted[slot] = 1
            if running != target or aligned > first:
                self.copy(binding, state, row, running, target, aligned - first)

    def _programs(self, binding: Binding, idx_mapping: Any, num_rows: int) -> Iterator[tuple[int, int, HostState]]:
        """(table row, slot, state) of every program, in the drawn order."""
        states = binding.host_states
        for index in self.order.permutation(num_rows * len(states)):
            row, state = divmod(index, len(states))
            slot = row if idx_mapping is None else int(idx_mapping[row])
            if slot >= 0:
                yield (slot if self.inner.reads_slot_tables else row), slot, states[state]
