"""Faults that show only if the programs of a launch, or the chunks of a copy, run in another order."""

from __future__ import annotations

import copy as copying
import importlib
from contextlib import AbstractContextManager
from typing import Any

from stalerow.kernels.align.kernels import AlignKernels
from stalerow.kernels.base.binding import Binding, HostState
from stalerow.kernels.base.memory import OutOfBounds, SlotState
from stalerow.kernels.compiled.interleave import Interleaver, Lags, interleaved
from stalerow.kernels.sets import ROW_IS_SLOT, KernelSet
from stalerow.simulator.faults.base import Fault, Wrapped
from stalerow.simulator.faults.interpreted import drawn_grid, drawn_rows
from stalerow.simulator.faults.programs import DrawnOrder, ProgramAlign
from stalerow.simulator.schedule.choosers.lagging import DrawnLags
from stalerow.simulator.schedule.values import Schedule


def _either(
    on_host: type[_OnHost],
    reference: type[ProgramAlign],
    kernels: KernelSet,
    schedule: Schedule,
    fault: str,
) -> AlignKernels:
    """The form of a fault that fits the kernel set."""
    if kernels.backend.name in ("triton-interpreter", "triton-cpu") and kernels.name in ROW_IS_SLOT:
        return on_host(kernels, schedule)
    return reference(kernels, schedule, fault)


class _LiveCounts(ProgramAlign):
    snapshots = False


PROGRAMS = 4
"""Programs of a launch on the host, where one is the rule."""


class _OnHost(Wrapped):
    """Triton kernels on the host, whose postprocess runs with something in a drawn order."""

    def __init__(self, kernels: KernelSet, schedule: Schedule) -> None:
        super().__init__(kernels.align)
        self._order = DrawnOrder(schedule)


class _LiveCountsTriton(_OnHost):
    """The snapshot of num_accepted is the array itself, and several programs run in a drawn order."""

    def __init__(self, kernels: KernelSet, schedule: Schedule) -> None:
        super().__init__(kernels, schedule)
        self._compiled = kernels.backend.name == "triton-cpu"
        self.inner = copying.copy(kernels.align)
        self.inner.programs = PROGRAMS

    def postprocess(self, slots: SlotState, *arguments: Any) -> None:
        live = copying.copy(slots)
        live.num_accepted_snapshot = slots.num_accepted
        with self._drawn():
            self.inner.postprocess(live, *arguments)

    def _drawn(self) -> AbstractContextManager[None]:
        if self._compiled:
            launch = importlib.import_module("stalerow.kernels.compiled.launch")
            drawn: AbstractContextManager[None] = launch.programs_in(self._order.permutation)
            return drawn
        return drawn_grid(self._order)


class _RowByRowTriton(_OnHost):
    """Rows of a window are moved without regard to each other: interpreted one by one, compiled by warps of which each
    has lanes of its own in every row, with no barrier between what is loaded and what is stored."""

    def __init__(self, kernels: KernelSet, schedule: Schedule) -> None:
        super().__init__(kernels, schedule)
        self._compiled = kernels.backend.name == "triton-cpu"

    def postprocess(self, *arguments: Any) -> None:
        with interleaved(_Torn(self._order)) if self._compiled else drawn_rows(self._order):
            self.inner.postprocess(*arguments)


class _Torn(Interleaver):
    lanes, barriers = 1, False
    warps = 3  # no power of two, so that the rows of a window fall to different warps

    def __init__(self, order: DrawnOrder) -> None:
        self._order = order

    def lags(self, kernel: str) -> Lags:
        return DrawnLags(self._order.chooser)


class AcceptResetRace(Fault):
    """One program of the postprocess launch resets `num_accepted` while its siblings still have to read it.

    Siblings that come later see 1, find no boundary and leave their layer's copy out. Needs the boundary's column to
    be the running one, and an order in which the resetting program is not the last.
    """

    name = id = "accept-reset-race"
    summary = "num_accepted is reset while other programs of the launch still read it"
    reports = ("vllm#50432",)
    expected = ("torn copy",)
    launches = ("postprocess",)

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        return _either(_LiveCountsTriton, _LiveCounts, kernels, schedule, self.name)

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0


class _RowByRow(ProgramAlign):
    """Window rows are copied one after the other, in an order that memcpy would be free to take."""

    def copy(self, binding: Binding, state: HostState, row: int, source: int, target: int, bias: int) -> None:
        if not state.conv_width or source != target:
            super().copy(binding, state, row, source, target, bias)
            return
        entry, layout = state.entry, binding.layout
        block = int(binding.copy_tables[state.group_index][row, source])
        if not 0 <= block < layout.num_blocks:
            raise OutOfBounds(f"block_table[{state.group_index}]", row, source, block, layout.num_blocks)
        page = binding.pool.pages(binding.pool.array)[entry.layer, block]
        data = page[entry.offset : entry.offset + entry.data_bytes]
        if layout.conv_layout == "SD":
            window = data.reshape(state.conv_width, state.row_bytes)
        else:
            window = data.reshape(state.dim, state.conv_width, state.elem_size).swapaxes(0, 1)
        for i in self.order.permutation(max(state.conv_width - bias, 0)):
            window[i] = window[i + bias]


class OverlapShift(Fault):
    """The shift of a window inside its own block is done as if source and destination did not overlap.

    Rows that are overwritten before they are read come out twice. Needs a conv state, a boundary in the running column
    and an accepted draft past it.
    """

    name = id = "overlap-shift"
    summary = "a window is shifted inside its block as if the ranges did not overlap"
    reports = ("vllm#50729", "vllm-ascend#15592")
    expected = ("torn copy",)
    launches = ("postprocess",)

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        return _either(_RowByRowTriton, _RowByRow, kernels, schedule, self.name)

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0 and any(s.conv_width for s in schedule.layout.states)


class _NarrowProduct(ProgramAlign):
    """Block offsets are computed in 32 bits, in a cache whose bytes each stand for `scale` bytes of a real one."""

    def __init__(self, kernels: KernelSet, schedule: Schedule, fault: str) -> None:
        super().__init__(kernels, schedule, fault)
        layout = schedule.layout
        self._scale = (1 << 32) // (layout.num_blocks * layout.page_bytes)

    def copy(self, binding: Binding, state: HostState, row: int, source: int, target: int, bias: int) -> None:
        column = source if state.conv_width else source + bias
        table = binding.copy_tables[state.group_index]
        for used in (column, target):
            block = int(table[row, used]) if 0 <= used < binding.table_row_stride else 0
            product = narrow_product(block, binding.layout.page_bytes * self._scale)
            if product != block * binding.layout.page_bytes * self._scale:
                raise OutOfBounds(f"address of block {block}", row, used, product, 1 << 31)
        super().copy(binding, state, row, source, target, bias)


def narrow_product(block: int, stride: int) -> int:
    """`block * stride` as a 32-bit signed integer."""
    return (block * stride + (1 << 31)) % (1 << 32) - (1 << 31)


class AddressWidth(Fault):
    """The product of block id and stride is computed in 32 bits and comes out negative for high block ids.

    The model scales its small pool up: half of the block ids lie past 2**31 bytes. A wrong address is an illegal
    access there. Needs a copy from or to a block in the upper half of the pool.
    """

    name = id = "address-width"
    summary = "block id times stride overflows 32 bits"
    reports = ("vllm#35275", "vllm#41817", "vllm#48109")
    expected = ("out of bounds",)
    launches = ("precopy", "postprocess")
    says = "address of block"

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        return _NarrowProduct(kernels, schedule, self.name)


class _WholePage(ProgramAlign):
    def copy(self, binding: Binding, state: HostState, row: int, source: int, target: int, bias: int) -> None:
        """Copy as always, and whatever lies behind the state up to the length of a page along with it."""
        super().copy(binding, state, row, source, target, bias)
        if state.conv_width:
            return
        table, pool = binding.copy_tables[state.group_index], binding.pool.array
        starts = [state.base + int(table[row, c]) * binding.layout.page_bytes for c in (source + bias, target)]
        end = max(starts) + binding.layout.page_bytes
        if end > pool.size:
            raise OutOfBounds("pool", row, end - 1, None, pool.size)
        read, written = starts
        size = binding.layout.page_bytes
        pool[written : written + size] = pool[read : read + size].copy()


class PageStrideCopy(Fault):
    """A copy is as long as the page stride instead of the data: 768 bytes for a state of 256.

    Whatever is packed behind the state goes along: other states of the page, and the head of the next block's page.
    Needs several states in one page, or a state that does not start it.
    """

    name = id = "page-stride-copy"
    summary = "copies are as long as the page stride, not the data"
    reports = ("vllm#40172",)
    expected = ("cross-request copy", "use after free", "torn copy", "wrong position", "out of bounds")
    launches = ("precopy", "postprocess")

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        return _WholePage(kernels, schedule, self.name)

    def needs(self, schedule: Schedule) -> bool:
        return any(s.offset for s in schedule.layout.states)


class _SameBlockEarlyOut(ProgramAlign):
    def copy(self, binding: Binding, state: HostState, row: int, source: int, target: int, bias: int) -> None:
        table = binding.copy_tables[state.group_index]
        column = source if state.conv_width else source + bias
        if int(table[row, column]) != int(table[row, target]):
            super().copy(binding, state, row, source, target, bias)


class SameBlockSkip(Fault):
    """The early-out compares addresses of blocks instead of columns: a shift inside one block is left out.

    Two columns can hold the same block, and a window can move within its own. Needs a conv state and a boundary in the
    running column with an accepted draft past it.
    """

    name = "same-block-skip"
    id = "page-stride-copy"
    summary = "the early-out compares block addresses instead of columns"
    reports = ("vllm#40172",)
    expected = ("torn copy", "wrong position")
    launches = ("postprocess", "precopy")

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        return _SameBlockEarlyOut(kernels, schedule, self.name)

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0 and any(s.conv_width for s in schedule.layout.states)
