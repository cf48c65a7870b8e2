"""Postprocess as a Triton kernel: every program decides for all rows and copies its share. Twin of `postprocess`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.align.copy_triton import copy_moves
from stalerow.kernels.base.jit import load_kept


@triton.jit(do_not_specialize=["num_rows", "num_tiles", "draw_from"])
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
    num_tiles,
    draws,
    draw_from,
    states,
    table_row_stride: tl.int64,
    BLOCK_SIZE: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr,
    HAS_COUNTS: tl.constexpr,
    ROW_IS_SLOT: tl.constexpr,
    CHANNELS_FIRST: tl.constexpr,
    ROWS: tl.constexpr,
    TILE_STEPS: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """Save the state after `aligned = total // BLOCK_SIZE * BLOCK_SIZE` tokens if this step's tokens reached it.

    `copy_moves` from column `state_idx` to `aligned // BLOCK_SIZE - 1` with bias `aligned - first`,
    `first = total - num_accepted + 1`, `ROWS` rows at once. Every program reads the snapshot; program 0 alone
    writes `num_accepted = 1` where the column is the running one, so no program can see another's write.
    """
    turn = tl.program_id(0)
    for first_row in range(0, num_rows, ROWS):
        row = first_row + tl.arange(0, ROWS).to(tl.int64)
        present = row < num_rows
        slot = row
        if HAS_IDX_MAPPING:
            slot = load_kept(idx_mapping + row, present, -1).to(tl.int64)
            present = slot >= 0
        accepted = load_kept(num_accepted_snapshot + slot, present, 1).to(tl.int64)
        running = load_kept(state_idx + slot, present, -1).to(tl.int64)
        if HAS_COUNTS:
            scheduled = load_kept(counts_scheduled + slot, present, 0).to(tl.int64)
            drafts = load_kept(counts_drafts + slot, present, 0)
            computed = load_kept(counts_computed + slot, present, 0)
            total = computed + (scheduled - drafts) + accepted - 1
        else:
            total = load_kept(slot_num_computed + slot, present, 0).to(tl.int64)
        first = total - accepted + 1
        aligned = total // BLOCK_SIZE * BLOCK_SIZE
        target = aligned // BLOCK_SIZE - 1
        reached = present & (aligned >= first)
        if tl.program_id(0) == 0:
            tl.store(num_accepted + slot, 1, mask=reached & (running == target))
        table_row = row
        if ROW_IS_SLOT:
            table_row = slot
        turn = copy_moves(
            reached & ((running != target) | (aligned != first)),
            table_row,
            running,
            target,
            aligned - first,
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
