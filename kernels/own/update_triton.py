"""Token and slot bookkeeping as Triton kernels, `ROWS` batch rows per program. Twin of `update`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.base.device import Array
from stalerow.kernels.base.jit import max_of
from stalerow.kernels.base.memory import SlotState

ROWS = 32
TOKENS = 64
"""A program's tile: batch rows x tokens."""


@triton.jit(do_not_specialize=["n"])
def seed_slots_kernel(
    slot_ids,
    new_state_idx,
    new_num_accepted,
    new_num_computed,
    new_total_len,
    tokens,
    state_idx,
    num_accepted,
    num_computed,
    total_len,
    token_ids,
    max_model_len,
    n,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Write each slot's seeds and `token_ids[slot, :total_len] = tokens[i, :total_len]`."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(slot_ids + i, mask=i < n, other=-1).to(tl.int64)
    live = slot >= 0
    length = tl.load(new_total_len + i, mask=live, other=0).to(tl.int64)
    tl.store(state_idx + slot, tl.load(new_state_idx + i, mask=live), mask=live)
    tl.store(num_accepted + slot, tl.load(new_num_accepted + i, mask=live), mask=live)
    tl.store(num_computed + slot, tl.load(new_num_computed + i, mask=live), mask=live)
    tl.store(total_len + slot, length, mask=live)
    for first in range(0, max_of(length), TOKENS):
        t = tl.arange(0, TOKENS).to(tl.int64) + first
        mask = (t[None, :] < length[:, None]) & (t < max_model_len)[None, :]
        values = tl.load(tokens + i[:, None] * max_model_len + t[None, :], mask=mask)
        tl.store(token_ids + slot[:, None] * max_model_len + t[None, :], values, mask=mask)


@triton.jit(do_not_specialize=["num_rows", "num_rows_padded"])
def seq_lens_kernel(idx_mapping, query_start_loc, num_computed, out, num_rows, num_rows_padded, ROWS: tl.constexpr):
    """`out[row] = num_computed[slot] + query_len`, 0 without a slot."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(idx_mapping + row, mask=row < num_rows, other=-1)
    live = slot >= 0
    length = tl.load(num_computed + slot, mask=live, other=0).to(tl.int64)
    length += tl.load(query_start_loc + row + 1, mask=live, other=0).to(tl.int64)
    length -= tl.load(query_start_loc + row, mask=live, other=0).to(tl.int64)
    tl.store(out + row, length, mask=row < num_rows_padded)


@triton.jit(do_not_specialize=["num_rows"])
def post_update_kernel(
    idx_mapping,
    sampled,
    sampled_stride: tl.int64,
    num_sampled,
    num_rejected,
    query_start_loc,
    num_computed,
    total_len,
    token_ids,
    last_token,
    max_model_len,
    num_rows,
    HAS_QUERY_LEN: tl.constexpr,
    ROWS: tl.constexpr,
    SAMPLES: tl.constexpr,
):
    """`token_ids[slot, total_len:][:num_sampled] = sampled[row, :num_sampled]`, then the counts."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(idx_mapping + row, mask=row < num_rows, other=-1)
    live = slot >= 0
    count = tl.load(num_sampled + row, mask=live, other=0).to(tl.int64)
    length = tl.load(total_len + slot, mask=live, other=0).to(tl.int64)
    i = tl.arange(0, SAMPLES)
    column = length[:, None] + i[None, :]
    mask = (i[None, :] < count[:, None]) & (column < max_model_len)
    source = sampled + row[:, None] * sampled_stride
    tokens = tl.load(source + i[None, :], mask=mask)
    tl.store(token_ids + slot[:, None] * max_model_len + column, tokens.to(tl.int32), mask=mask)
    some = count > 0
    last = tl.load(sampled + row * sampled_stride + count - 1, mask=some)
    tl.store(last_token + slot, last, mask=some)
    tl.store(total_len + slot, length + count, mask=some)
    delta = -tl.load(num_rejected + row, mask=live, other=0).to(tl.int64)
    if HAS_QUERY_LEN:
        delta += tl.load(query_start_loc + row + 1, mask=live, other=0).to(tl.int64)
        delta -= tl.load(query_start_loc + row, mask=live, other=0).to(tl.int64)
    computed = tl.load(num_computed + slot, mask=live, other=0).to(tl.int64)
    tl.store(num_computed + slot, computed + delta, mask=live)


@triton.jit(do_not_specialize=["num_rows"])
def advance_computed_kernel(idx_mapping, query_start_loc, num_computed, num_rows, ROWS: tl.constexpr):
    """`num_computed[slot] += query_len`."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(idx_mapping + row, mask=row < num_rows, other=-1)
    live = slot >= 0
    begin = tl.load(query_start_loc + row, mask=live, other=0).to(tl.int64)
    end = tl.load(query_start_loc + row + 1, mask=live, other=0).to(tl.int64)
    computed = tl.load(num_computed + slot, mask=live, other=0).to(tl.int64)
    tl.store(num_computed + slot, computed + end - begin, mask=live)


@triton.jit(do_not_specialize=["value", "num_rows"])
def set_accepted_kernel(
    idx_mapping, num_sampled, num_accepted, value, num_rows, HAS_SAMPLED: tl.constexpr, ROWS: tl.constexpr
):
    """`num_accepted[slot] = max(num_sampled[row], 1)`, or `max(value, 1)` for every row."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(idx_mapping + row, mask=row < num_rows, other=-1)
    live = slot >= 0
    count = tl.full((ROWS,), 0, tl.int32) + value
    if HAS_SAMPLED:
        count = tl.load(num_sampled + row, mask=live, other=1).to(tl.int64)
    tl.store(num_accepted + slot, tl.maximum(count, 1), mask=live)


def _grid(num_rows: int) -> tuple[int]:
    return (triton.cdiv(num_rows, ROWS),)


def seed_slots(
    slots: SlotState,
    slot_ids: Array,
    state_idx: Array,
    num_accepted: Array,
    num_computed: Array,
    total_len: Array,
    tokens: Array,
    n: int,
) -> None:
    """See `update.seed_slots`."""
    if n == 0:
        return
    seed_slots_kernel[_grid(n)](
        slot_ids,
        state_idx,
        num_accepted,
        num_computed,
        total_len,
        tokens,
        slots.state_idx,
        slots.num_accepted,
        slots.num_computed,
        slots.total_len,
        slots.token_ids,
        slots.max_model_len,
        n,
        ROWS=ROWS,
        TOKENS=TOKENS,
    )


def seq_lens(
    slots: SlotState,
    idx_mapping: Array,
    query_start_loc: Array,
    num_rows: int,
    num_rows_padded: int,
    out: Array,
) -> None:
    """See `update.seq_lens`."""
    if num_rows_padded == 0:
        return
    seq_lens_kernel[_grid(num_rows_padded)](
        idx_mapping, query_start_loc, slots.num_computed, out, num_rows, num_rows_padded, ROWS=ROWS
    )


def post_update(
    slots: SlotState,
    idx_mapping: Array,
    sampled: Array,
    num_sampled: Array,
    num_rejected: Array,
    query_start_loc: Array | None,
    num_rows: int,
) -> None:
    """See `update.post_update`; tokens past `max_model_len` are masked off."""
    if num_rows == 0:
        return
    post_update_kernel[_grid(num_rows)](
        idx_mapping,
        sampled,
        sampled.stride(0),
        num_sampled,
        num_rejected,
        query_start_loc,
        slots.num_computed,
        slots.total_len,
        slots.token_ids,
        slots.last_token,
        slots.max_model_len,
        num_rows,
        HAS_QUERY_LEN=query_start_loc is not None,
        ROWS=ROWS,
        SAMPLES=triton.next_power_of_2(sampled.shape[1]),
    )


def advance_computed(slots: SlotState, idx_mapping: Array, query_start_loc: Array, num_rows: int) -> None:
    """See `update.advance_computed`."""
    if num_rows:
        advance_computed_kernel[_grid(num_rows)](idx_mapping, query_start_loc, slots.num_computed, num_rows, ROWS=ROWS)


def scatter_accepted(slots: SlotState, idx_mapping: Array, num_sampled: Array, num_rows: int) -> None:
    """See `update.scatter_accepted`."""
    if num_rows:
        set_accepted_kernel[_grid(num_rows)](
            idx_mapping, num_sampled, slots.num_accepted, 0, num_rows, HAS_SAMPLED=True, ROWS=ROWS
        )


def fill_accepted(slots: SlotState, idx_mapping: Array, value: int, num_rows: int) -> None:
    """See `update.fill_accepted`."""
    if num_rows:
        set_accepted_kernel[_grid(num_rows)](
            idx_mapping, None, slots.num_accepted, value, num_rows, HAS_SAMPLED=False, ROWS=ROWS
        )
