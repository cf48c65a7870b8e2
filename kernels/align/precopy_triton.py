"""Precopy as a Triton kernel: every program decides for all rows and copies its share. Twin of `precopy`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.align.copy_triton import copy_moves
from stalerow.kernels.base.jit import load_kept


@triton.jit(do_not_specialize=["num_rows", "num_tiles", "draw_from"])
def precopy_kernel(
    idx_mapping,
    src_col,
    src_off,
    state_idx,
    num_rows,
    tiles,
    num_tiles,
    draws,
    draw_from,
    states,
    table_row_stride: tl.int64,
    HAS_IDX_MAPPING: tl.constexpr,
    ROW_IS_SLOT: tl.constexpr,
    CHANNELS_FIRST: tl.constexpr,
    ROWS: tl.constexpr,
    TILE_STEPS: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """`copy_moves` from column `src_col[slot]` to `state_idx[slot]` with bias `src_off[slot]`, `ROWS` rows at once.

    Nothing for a slot of -1, a fresh request (`src_col < 0`) or a column that did not move. The table row is
    the slot if `ROW_IS_SLOT`, else the batch row: the whole difference between vLLM 0.32 and 0.30.
    """
    turn = tl.program_id(0)
    for first_row in range(0, num_rows, ROWS):
        row = first_row + tl.arange(0, ROWS).to(tl.int64)
        present = row < num_rows
        slot = row
        if HAS_IDX_MAPPING:
            slot = load_kept(idx_mapping + row, present, -1).to(tl.int64)
            present = slot >= 0
        source = load_kept(src_col + slot, present, -1).to(tl.int64)
        target = load_kept(state_idx + slot, present, -1).to(tl.int64)
        bias = load_kept(src_off + slot, present, 0).to(tl.int64)
        table_row = row
        if ROW_IS_SLOT:
            table_row = slot
        turn = copy_moves(
            (source >= 0) & (source != target),
            table_row,
            source,
            target,
            bias,
            turn,
            num_rows <= ROWS,
            tiles,
            num_tiles,
            draws,
            draw_from,
            states,
            table_row_stride,
            CHANNELS_FIRST,
            TILE_STEPS,
            COPY_BLOCK,
            WIDTH_BLOCK,
            ROW_BLOCK,
        )
