"""Postprocess as a Triton kernel: one program per (row, state, tile). Twin of `postprocess`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.copy_triton import copy_state


@triton.jit
def postprocess_kernel(
    idx_mapping,
    num_accepted_snapshot,
    num_accepted,
    state_idx,
    slot_num_computed,
    counts_scheduled,
    counts_computed,
    counts_drafts,
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
    BLOCK_SIZE: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr,
    HAS_COUNTS: tl.constexpr,
    ROW_IS_SLOT: tl.constexpr,
    CHANNELS_FIRST: tl.constexpr,
    TILES: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """Save the state after `aligned = total // BLOCK_SIZE * BLOCK_SIZE` tokens if this step's tokens reached it.

    `copy_state` from column `state_idx` to `aligned // BLOCK_SIZE - 1` with bias `aligned - first`,
    `first = total - num_accepted + 1`. Every program of a slot reads the snapshot; one alone, (state 0, tile
    0), writes `num_accepted = 1` where the column is the running one, so no program can see another's write.
    """
    row = tl.program_id(0).to(tl.int64)
    state = tl.program_id(1)
    tile = tl.program_id(2).to(tl.int64)
    slot = row
    if HAS_IDX_MAPPING:
        slot = tl.load(idx_mapping + row).to(tl.int64)
    if slot < 0:
        return
    accepted = tl.load(num_accepted_snapshot + slot).to(tl.int64)
    if HAS_COUNTS:
        scheduled = tl.load(counts_scheduled + slot).to(tl.int64) - tl.load(counts_drafts + slot)
        total = tl.load(counts_computed + slot) + scheduled + accepted - 1
    else:
        total = tl.load(slot_num_computed + slot).to(tl.int64)
    first = total - accepted + 1
    aligned = total // BLOCK_SIZE * BLOCK_SIZE
    if aligned < first:
        return
    running = tl.load(state_idx + slot).to(tl.int64)
    target = aligned // BLOCK_SIZE - 1
    if (running == target) & (state == 0) & (tile == 0):
        tl.store(num_accepted + slot, 1)
    if (running == target) & (aligned == first):
        return
    table_row = row
    if ROW_IS_SLOT:
        table_row = slot
    copy_state(
        state,
        table_row,
        running,
        target,
        aligned - first,
        tile,
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
