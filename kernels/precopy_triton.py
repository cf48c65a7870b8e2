"""Precopy as a Triton kernel: every program decides for all rows and copies its share. Twin of `precopy`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.copy_triton import copy_moves


@triton.jit(do_not_specialize=["num_rows", "num_tiles"])
def precopy_kernel(
    idx_mapping,
    src_col,
    src_off,
    state_idx,
    num_rows,
    tiles,
    num_tiles: tl.int64,
    table_ptrs,
    table_row_stride: tl.int64,
    state_base_addrs,
    state_block_strides,
    state_elem_sizes,
    state_inner_sizes,
    state_conv_widths,
    state_group_indices,
    state_dim_row_count,
    state_dim_row_stride,
    HAS_IDX_MAPPING: tl.constexpr,
    ROW_IS_SLOT: tl.constexpr,
    CHANNELS_FIRST: tl.constexpr,
    ROWS: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """`copy_moves` from column `src_col[slot]` to `state_idx[slot]` with bias `src_off[slot]`, `ROWS` rows at once.

    Nothing for a slot of -1, a fresh request (`src_col < 0`) or a column that did not move. The table row is
    the slot if `ROW_IS_SLOT`, else the batch row: the whole difference between vLLM 0.32 and 0.30.
    """
    tile = tl.program_id(0).to(tl.int64)
    for first_row in range(0, num_rows, ROWS):
        row = first_row + tl.arange(0, ROWS).to(tl.int64)
        present = row < num_rows
        slot = row
        if HAS_IDX_MAPPING:
            slot = tl.load(idx_mapping + row, mask=present, other=-1).to(tl.int64)
            present = slot >= 0
        source = tl.load(src_col + slot, mask=present, other=-1).to(tl.int64)
        target = tl.load(state_idx + slot, mask=present, other=-1).to(tl.int64)
        bias = tl.load(src_off + slot, mask=present, other=0).to(tl.int64)
        table_row = row
        if ROW_IS_SLOT:
            table_row = slot
        tile = copy_moves(
            (source >= 0) & (source != target),
            table_row,
            source,
            target,
            bias,
            tile,
            tiles,
            num_tiles,
            table_ptrs,
            table_row_stride,
            state_base_addrs,
            state_block_strides,
            state_elem_sizes,
            state_inner_sizes,
            state_conv_widths,
            state_group_indices,
            state_dim_row_count,
            state_dim_row_stride,
            CHANNELS_FIRST,
            COPY_BLOCK,
            WIDTH_BLOCK,
            ROW_BLOCK,
        )
