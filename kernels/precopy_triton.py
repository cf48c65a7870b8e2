"""Precopy as a Triton kernel: one program per (row, state, tile). Twin of `precopy`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.copy_triton import copy_state


@triton.jit
def precopy_kernel(
    idx_mapping,
    src_col,
    src_off,
    state_idx,
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
    TILES: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """`copy_state` from column `src_col[slot]` to `state_idx[slot]` with bias `src_off[slot]`.

    Nothing for a slot of -1, a fresh request (`src_col < 0`) or a column that did not move. The table row is
    the slot if `ROW_IS_SLOT`, else the batch row: the whole difference between vLLM 0.32 and 0.30.
    """
    row = tl.program_id(0).to(tl.int64)
    slot = row
    if HAS_IDX_MAPPING:
        slot = tl.load(idx_mapping + row).to(tl.int64)
    if slot < 0:
        return
    source = tl.load(src_col + slot).to(tl.int64)
    target = tl.load(state_idx + slot).to(tl.int64)
    if (source < 0) | (source == target):
        return
    table_row = row
    if ROW_IS_SLOT:
        table_row = slot
    copy_state(
        tl.program_id(1),
        table_row,
        source,
        target,
        tl.load(src_off + slot).to(tl.int64),
        tl.program_id(2).to(tl.int64),
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
        TILES,
        COPY_BLOCK,
        WIDTH_BLOCK,
        ROW_BLOCK,
    )
