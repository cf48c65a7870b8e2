"""Preprocess as a Triton kernel: one program per `ROWS` batch rows. Twin of `preprocess`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows"])
def preprocess_kernel(
    idx_mapping,
    query_start_loc,
    state_idx,
    num_accepted,
    num_computed,
    src_col,
    src_off,
    num_rows,
    BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Advance the running column of every slot in the batch.

    `src_col = state_idx`, `src_off = max(num_accepted - 1, 0)`, `state_idx = cdiv(num_computed + query_len,
    BLOCK_SIZE) - 1`, and `num_accepted = 1` where the column moved.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(idx_mapping + row, mask=row < num_rows, other=-1)
    live = slot >= 0
    old = tl.load(state_idx + slot, mask=live, other=-1).to(tl.int64)
    accepted = tl.load(num_accepted + slot, mask=live, other=1).to(tl.int64)
    computed = tl.load(num_computed + slot, mask=live, other=0).to(tl.int64)
    begin = tl.load(query_start_loc + row, mask=live, other=0).to(tl.int64)
    end = tl.load(query_start_loc + row + 1, mask=live, other=0).to(tl.int64)
    new = (computed + end - begin + BLOCK_SIZE - 1) // BLOCK_SIZE - 1
    tl.store(src_col + slot, old, mask=live)
    tl.store(src_off + slot, tl.maximum(accepted - 1, 0), mask=live)
    tl.store(state_idx + slot, new, mask=live)
    tl.store(num_accepted + slot, 1, mask=live & (old >= 0) & (old != new))
