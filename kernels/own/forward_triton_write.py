"""What a step writes: the kernels for the new recurrent states and the attention rows of a step's positions.

`forward_triton` launches them after those of `forward_triton_read`, whose `damage` and `kept` are all they
know of what was in the pool. Which rows an item writes is decided here (see `forward.forward`); shapes and
arrays are those of `forward_triton_read`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.base.jit import max_of, sum_along
from stalerow.kernels.base.patterns import GOLDEN
from stalerow.kernels.own.forward_triton_rows import BAD_BLOCK, row_facts, write_rows

_GOLDEN = tl.constexpr(GOLDEN)


@triton.jit(do_not_specialize=["num_rows", "num_states", "num_units", "num_columns", "window", "max_bytes"])
def write_states_kernel(
    pool,
    page_bytes: tl.int64,
    num_blocks,
    unit_fields,
    unit_starts,
    unit_salts,
    state_indices,
    state_indices_rows,
    idx_mapping,
    query_start_loc,
    seq_lens,
    is_spec,
    hashes,
    hashes_stride: tl.int64,
    activation_in,
    damage,
    kept,
    num_rows,
    num_states,
    num_units,
    num_columns,
    window,
    max_bytes,
    ITEMS: tl.constexpr,
    ROWS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """The new recurrent states, from `damage` and `kept`; a wrong target block adds to `damage`."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = item // num_rows
    row = item % num_rows
    valid = unit < num_states
    _, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
    field = unit_fields + unit * 8
    table = tl.load(field + 1, mask=valid, other=0).to(tl.int64)
    conv = tl.load(field + 2, mask=valid, other=0).to(tl.int64) != 0
    row_stride = tl.load(field + 5, mask=valid, other=0).to(tl.int64)
    start = tl.load(unit_starts + unit, mask=valid, other=0)
    spot = damage + row * num_units + tl.load(field, mask=valid, other=0).to(tl.int64)
    own = tl.load(spot, mask=valid, other=0)
    incoming = tl.load(activation_in + row, mask=valid, other=0)
    carried = incoming + (own.to(tl.uint64) * _GOLDEN).to(tl.int64)

    q = tl.arange(0, ROWS).to(tl.int64)[None, :]
    back = tl.where(conv, window, 1)
    count = tl.minimum(tl.where(spec, n, 1), num_columns) + back - 1
    used = (q < count[:, None]) & (n > 0)[:, None]
    position = (tl.where(spec, c + 1, c + n) - back)[:, None] + q
    at = ((table * state_indices_rows + row) * num_columns)[:, None] + tl.where(conv[:, None], 0, q)
    block = tl.load(state_indices + at, mask=used, other=-1).to(tl.int64)
    in_pool = (block >= 0) & (block < num_blocks)
    written = used & in_pool
    fresh = written & (position >= c[:, None])
    row_hashes = hashes + row[:, None] * hashes_stride
    key = tl.load(row_hashes + position + 1, mask=fresh, other=0) + carried[:, None]
    key = key ^ tl.load(unit_salts + unit, mask=valid, other=0)[:, None]
    within = tl.where(conv[:, None], q * row_stride[:, None], 0)
    source = position - (c[:, None] - window)
    write_rows(
        pool,
        start[:, None] + block * page_bytes + within,
        written,
        fresh,
        key,
        tl.load(field + 4, mask=valid, other=0).to(tl.int64),
        tl.load(field + 6, mask=valid, other=1).to(tl.int64),
        tl.load(field + 7, mask=valid, other=0).to(tl.int64),
        kept,
        (item[:, None] * window + source) * max_bytes,
        written & (position >= 0) & (position < c[:, None]),
        max_bytes,
        BYTES,
        True,
    )
    missed = sum_along(tl.where(used & (in_pool == 0), block * BAD_BLOCK, 0), axis=1)
    tl.store(spot, own + missed, mask=valid & (missed != 0))


@triton.jit(do_not_specialize=["num_rows", "num_states", "num_units", "max_bytes"])
def write_kv_kernel(
    pool,
    page_bytes: tl.int64,
    num_blocks,
    unit_fields,
    unit_starts,
    unit_salts,
    table_ptrs,
    table_row_stride: tl.int64,
    idx_mapping,
    query_start_loc,
    seq_lens,
    is_spec,
    hashes,
    hashes_stride: tl.int64,
    activation_in,
    damage,
    num_rows,
    num_states,
    num_units,
    max_bytes,
    ITEMS: tl.constexpr,
    POSITIONS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """The attention rows of a step's positions; a wrong target block adds to `damage`."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = num_states + item // num_rows
    row = item % num_rows
    valid = unit < num_units
    _, c, n, _ = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
    field = unit_fields + unit * 8
    table = tl.load(field + 1, mask=valid, other=0).to(tl.int64)
    block_size = tl.load(field + 3, mask=valid, other=1).to(tl.int64)[:, None]
    row_bytes = tl.load(field + 4, mask=valid, other=0).to(tl.int64)
    chunk = tl.load(field + 6, mask=valid, other=1).to(tl.int64)
    chunk_stride = tl.load(field + 7, mask=valid, other=0).to(tl.int64)
    start = tl.load(unit_starts + unit, mask=valid, other=0)[:, None]
    salt = tl.load(unit_salts + unit, mask=valid, other=0)[:, None]
    blocks = tl.load(table_ptrs + table, mask=valid, other=0).to(tl.pointer_type(tl.int32))
    blocks += row * table_row_stride
    row_hashes = hashes + row[:, None] * hashes_stride
    incoming = tl.load(activation_in + row, mask=valid, other=0)[:, None]
    missed = tl.full((ITEMS,), 0, tl.int64)
    for first in range(0, max_of(n), POSITIONS):
        i = tl.arange(0, POSITIONS).to(tl.int64)[None, :] + first
        used = i < n[:, None]
        position = c[:, None] + i
        column = position // block_size
        mask = used & (column < table_row_stride)
        block = tl.load(blocks[:, None] + column, mask=mask, other=-1).to(tl.int64)
        in_pool = (block >= 0) & (block < num_blocks)
        written = used & in_pool
        within = position % block_size * row_bytes[:, None]
        key = (tl.load(row_hashes + position + 1, mask=written, other=0) + incoming) ^ salt
        place = start + block * page_bytes + within
        write_rows(
            pool,
            place,
            written,
            written,
            key,
            row_bytes,
            chunk,
            chunk_stride,
            pool,
            place,
            written,
            max_bytes,
            BYTES,
            False,
        )
        missed += sum_along(tl.where(used & (in_pool == 0), block * BAD_BLOCK, 0), axis=1)
    spot = damage + row * num_units + tl.load(field, mask=valid, other=0).to(tl.int64)
    own = tl.load(spot, mask=valid & (missed != 0), other=0)
    tl.store(spot, own + missed, mask=valid & (missed != 0))
