"""Postprocess as a Triton kernel: every program decides for all rows and copies its share. Twin of `postprocess`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.copy_triton import copy_moves


@triton.jit(do_not_specialize=["num_rows", "num_tiles"])
def postprocess_kernel(
    idx_mapping,
    num_accepted_snapshot,
    num_accepted,
    state_idx,
    slot_num_computed,
    counts_scheduled,
    counts_computed,
    counts_drafts,
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
    BLOCK_SIZE: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr,
    HAS_COUNTS: tl.constexpr,
    ROW_IS_SLOT: tl.constexpr,
    CHANNELS_FIRST: tl.constexpr,
    ROWS: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """Save the state after `aligned = total // BLOCK_SIZE * BLOCK_SIZE` tokens if this step's tokens reached it.

    `copy_moves` from column `state_idx` to `aligned // BLOCK_SIZE - 1` with bias `aligned - first`,
    `first = total - num_accepted + 1`, `ROWS` rows at once. Every program reads the snapshot; program 0 alone
    writes `num_accepted = 1` where the column is the running one, so no program can see another's write.
    """
    tile = tl.program_id(0).to(tl.int64)
    for first_row in range(0, num_rows, ROWS):
        row = first_row + tl.arange(0, ROWS).to(tl.int64)
        present = row < num_rows
        slot = row
        if HAS_IDX_MAPPING:
            slot = tl.load(idx_mapping + row, mask=present, other=-1).to(tl.int64)
            present = slot >= 0
        accepted = tl.load(num_accepted_snapshot + slot, mask=present, other=1).to(tl.int64)
        running = tl.load(state_idx + slot, mask=present, other=-1).to(tl.int64)
        if HAS_COUNTS:
            scheduled = tl.load(counts_scheduled + slot, mask=present, other=0).to(tl.int64)
            drafts = tl.load(counts_drafts + slot, mask=present, other=0)
            computed = tl.load(counts_computed + slot, mask=present, other=0)
            total = computed + (scheduled - drafts) + accepted - 1
        else:
            total = tl.load(slot_num_computed + slot, mask=present, other=0).to(tl.int64)
        first = total - accepted + 1
        aligned = total // BLOCK_SIZE * BLOCK_SIZE
        target = aligned // BLOCK_SIZE - 1
        reached = present & (aligned >= first)
        if tl.program_id(0) == 0:
            tl.store(num_accepted + slot, 1, mask=reached & (running == target))
        table_row = row
        if ROW_IS_SLOT:
            table_row = slot
        tile = copy_moves(
            reached & ((running != target) | (aligned != first)),
            table_row,
            running,
            target,
            aligned - first,
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
