"""The project's own align kernels: launches of the Triton kernels with a binding's arrays.

One source for two sets: `row_is_slot` chooses the table row that copies look up, and with it which tables the
binding holds (`reads_slot_tables`); nothing else differs between "req-idx" and "batch-row".
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
import triton

from stalerow.kernels.align.copy_tiles import CopyTiles
from stalerow.kernels.align.indices_triton import aligned_indices_kernel
from stalerow.kernels.align.postprocess import StepCounts
from stalerow.kernels.align.postprocess_triton import postprocess_kernel
from stalerow.kernels.align.precopy_triton import precopy_kernel
from stalerow.kernels.align.preprocess_triton import preprocess_kernel
from stalerow.kernels.base.binding import Binding
from stalerow.kernels.base.device import Array, Backend
from stalerow.kernels.base.memory import SlotState

ROWS = 32
"""Batch rows per program of the bookkeeping kernels."""

COPY_ROWS = (8, 64, 256)
"""Batch rows that a program of the copy kernels looks at together: in a small batch, an ordinary and a large one."""

PROGRAMS_PER_SM, COPY_BLOCK, COPY_WARPS, MAX_REGISTERS = 8, 512, 4, 64
"""How the copy kernels run: programs on a multiprocessor, 8-byte words of a step, warps of a program.

With 64 registers a thread, Hopper holds eight programs at once; one more would start only when another ends, and
the launch would take as long as two.
"""

DRAW_FROM = 10
"""Tiles a program from which on the programs of a launch draw their tiles; below, what a draw costs is not repaid."""

ROW_SPLIT = 2
"""Parts in which a step of a window is shifted inside its block: at once it would not fit the registers."""

NEVER = 2**16
"""Tiles a program that no launch has."""


class TritonAlign:
    """`AlignKernels` on Triton.

    The copy kernels run as `programs` programs, whatever there is to copy: several on every multiprocessor of a
    CUDA device. On the host it is one in any case: more would cost time, and rows that share blocks, as
    wild ones do, get the reference's bytes only in its order.
    """

    def __init__(self, row_is_slot: bool, backend: Backend, programs: int | None = None) -> None:
        on_host = backend.name != "triton-cuda"
        self.name = "req-idx" if row_is_slot else "batch-row"
        self.reads_slot_tables = row_is_slot
        if on_host:
            programs = 1
        elif programs is None:
            programs = PROGRAMS_PER_SM * _multiprocessors()
        self.programs = programs
        self._tiles: WeakKeyDictionary[Binding, CopyTiles] = WeakKeyDictionary()
        self.copy_rows = COPY_ROWS
        self.copy_block = COPY_BLOCK
        self.draw_from = NEVER if on_host else DRAW_FROM
        self.row_split = 1 if on_host else ROW_SPLIT

    def preprocess(
        self, slots: SlotState, idx_mapping: Array, query_start_loc: Array, num_rows: int, block_size: int
    ) -> None:
        if num_rows == 0:
            return
        preprocess_kernel[(triton.cdiv(num_rows, ROWS),)](
            idx_mapping,
            query_start_loc,
            slots.state_idx,
            slots.num_accepted,
            slots.num_computed,
            slots.src_col,
            slots.src_off,
            num_rows,
            BLOCK_SIZE=block_size,
            ROWS=ROWS,
        )

    def precopy(self, slots: SlotState, binding: Binding, idx_mapping: Array | None, num_rows: int) -> None:
        if num_rows == 0 or binding.num_states == 0:
            return
        precopy_kernel[(self.programs,)](
            idx_mapping,
            slots.src_col,
            slots.src_off,
            slots.state_idx,
            num_rows,
            HAS_IDX_MAPPING=idx_mapping is not None,
            **self._copy_arguments(binding, num_rows),
        )

    def postprocess(
        self,
        slots: SlotState,
        binding: Binding,
        idx_mapping: Array | None,
        num_rows: int,
        block_size: int,
        counts: StepCounts | None = None,
    ) -> None:
        slots.num_accepted_snapshot.copy_(slots.num_accepted)
        if num_rows == 0 or binding.num_states == 0:
            return
        postprocess_kernel[(self.programs,)](
            idx_mapping,
            slots.num_accepted_snapshot,
            slots.num_accepted,
            slots.state_idx,
            slots.num_computed,
            counts.num_scheduled if counts else None,
            counts.num_computed if counts else None,
            counts.num_drafts if counts else None,
            num_rows,
            BLOCK_SIZE=block_size,
            HAS_IDX_MAPPING=idx_mapping is not None,
            HAS_COUNTS=counts is not None,
            **self._copy_arguments(binding, num_rows),
        )

    def aligned_indices(
        self, binding: Binding, seq_lens: Array, num_rows_padded: int, block_size: int, out: Array
    ) -> None:
        groups, _, columns = out.shape
        if num_rows_padded == 0 or groups == 0:
            return
        aligned_indices_kernel[(triton.cdiv(num_rows_padded, ROWS),)](
            binding.index_table_ptrs,
            seq_lens,
            out,
            binding.table_row_stride,
            out.stride(0),
            out.stride(1),
            num_rows_padded,
            BLOCK_SIZE=block_size,
            NUM_GROUPS=groups,
            NUM_COLUMNS=columns,
            GROUPS=triton.next_power_of_2(groups),
            COLUMNS=triton.next_power_of_2(columns),
            ROWS=ROWS,
        )

    def copy_tiles(self, binding: Binding) -> CopyTiles:
        """Made at a binding's first launch, so that one has to come before a capture, as compilation has."""
        tiles = self._tiles.get(binding)
        if tiles is None:
            tiles = self._tiles[binding] = CopyTiles(binding, self.copy_block)
        return tiles

    def _copy_arguments(self, binding: Binding, num_rows: int) -> dict[str, Any]:
        layout = binding.layout
        tiles = self.copy_tiles(binding)
        return {
            "tiles": tiles.table,
            "num_tiles": len(tiles.table),
            "draws": tiles.draws,
            "draw_from": self.draw_from,
            "states": tiles.states,
            "table_row_stride": binding.table_row_stride,
            "ROW_IS_SLOT": self.reads_slot_tables,
            "CHANNELS_FIRST": layout.conv_layout == "DS",
            "ROWS": next((rows for rows in self.copy_rows if num_rows <= rows), self.copy_rows[-1]),
            "TILE_STEPS": tiles.tile_steps,
            "COPY_BLOCK": self.copy_block,
            "WIDTH_BLOCK": tiles.width_block,
            "ROW_BLOCK": max(1, self.copy_block // tiles.width_block // self.row_split),
            "num_warps": COPY_WARPS,
            "maxnreg": MAX_REGISTERS,
        }


def _multiprocessors() -> int:
    count: int = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return count
