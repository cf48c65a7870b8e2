"""The four kernels of the stand-in forward, two that read and two that write; `forward_triton` launches them.

Each program takes a tile of items, (unit, row) pairs, of recurrent states or of attention layers. Here is
decided which rows an item reads and writes (see `forward.forward`); the rows themselves are handled by
`forward_triton_rows`. Shapes: I items, Q positions or window rows.

`unit_fields` is int32 [units, 8]: damage column, table, conv, block size, row bytes, row stride, chunk, chunk
stride, as in `forward_plan.UnitClass`. `kept` is uint8 [states, rows, WINDOW, MAX_BYTES].
"""

from __future__ import annotations

import triton
import triton.language as tl
from stalerow.kernels.forward_triton_rows import row_errors, row_facts, write_rows
from stalerow.kernels.jit import max_of, sum_along
from stalerow.kernels.patterns import GOLDEN, MIX_2

_GOLDEN = tl.constexpr(GOLDEN)
BAD_BLOCK = tl.constexpr(MIX_2 >> 1 | 1)
"""Odd: a block id outside the pool, never 0, is counted as damage `id * BAD_BLOCK`, never 0 either."""


@triton.jit(do_not_specialize=["num_rows"])
def read_states_kernel(
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
    num_accepted,
    hashes,
    hashes_stride: tl.int64,
    damage,
    kept,
    num_rows,
    NUM_STATES: tl.constexpr,
    NUM_UNITS: tl.constexpr,
    NUM_COLUMNS: tl.constexpr,
    WINDOW: tl.constexpr,
    MAX_BYTES: tl.constexpr,
    ITEMS: tl.constexpr,
    ROWS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """`damage[row, unit]` of the recurrent states, and `kept[unit, row]`, the conv rows that were read."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = item // num_rows
    row = item % num_rows
    valid = unit < NUM_STATES
    slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
    field = unit_fields + unit * 8
    table = tl.load(field + 1, mask=valid, other=0).to(tl.int64)
    conv = tl.load(field + 2, mask=valid, other=0).to(tl.int64) != 0
    row_stride = tl.load(field + 5, mask=valid, other=0).to(tl.int64)
    start = tl.load(unit_starts + unit, mask=valid, other=0)

    reads = (n > 0) & (c > 0)
    offset = tl.load(num_accepted + slot, mask=reads & spec, other=1).to(tl.int64) - 1
    inside = reads & (offset >= 0) & (offset < NUM_COLUMNS)
    at = (table * state_indices_rows + row) * NUM_COLUMNS + tl.where(conv, 0, offset)
    block = tl.load(state_indices + at, mask=inside, other=-1).to(tl.int64)
    in_pool = (block >= 0) & (block < num_blocks)

    q = tl.arange(0, ROWS).to(tl.int64)[None, :]
    count = tl.where(conv, WINDOW, 1)[:, None]
    position = c[:, None] - count + q
    found = (q < count) & (reads & in_pool)[:, None]
    within = (tl.where(conv, offset, 0)[:, None] + q) * row_stride[:, None]
    expected = tl.load(
        hashes + row[:, None] * hashes_stride + position + 1,
        mask=found & (position >= 0),
        other=0,
    )
    error = row_errors(
        pool,
        (start + block * page_bytes)[:, None] + within,
        found,
        position,
        expected,
        tl.load(unit_salts + unit, mask=valid, other=0),
        tl.load(field + 4, mask=valid, other=0).to(tl.int64),
        tl.load(field + 6, mask=valid, other=1).to(tl.int64),
        tl.load(field + 7, mask=valid, other=0).to(tl.int64),
        kept,
        (item[:, None] * WINDOW + q) * MAX_BYTES,
        (q < WINDOW) & (valid & conv)[:, None],
        MAX_BYTES,
        BYTES,
        True,
    )
    weight = tl.where(conv[:, None], 2 * q + 3, 1)
    total = sum_along(error * weight, axis=1) + tl.where(reads & (in_pool == 0), block * BAD_BLOCK, 0)
    column = tl.load(field, mask=valid, other=0).to(tl.int64)
    tl.store(damage + row * NUM_UNITS + column, total, mask=valid)


@triton.jit(do_not_specialize=["num_rows"])
def read_kv_kernel(
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
    damage,
    num_rows,
    NUM_STATES: tl.constexpr,
    NUM_UNITS: tl.constexpr,
    MAX_BYTES: tl.constexpr,
    ITEMS: tl.constexpr,
    POSITIONS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """`damage[row, unit]` of the attention layers."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = NUM_STATES + item // num_rows
    row = item % num_rows
    valid = unit < NUM_UNITS
    slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
    c = tl.where(n > 0, c, 0)
    field = unit_fields + unit * 8
    table = tl.load(field + 1, mask=valid, other=0).to(tl.int64)
    block_size = tl.load(field + 3, mask=valid, other=1).to(tl.int64)[:, None]
    row_bytes = tl.load(field + 4, mask=valid, other=0).to(tl.int64)
    chunk = tl.load(field + 6, mask=valid, other=1).to(tl.int64)
    chunk_stride = tl.load(field + 7, mask=valid, other=0).to(tl.int64)
    start = tl.load(unit_starts + unit, mask=valid, other=0)[:, None]
    salt = tl.load(unit_salts + unit, mask=valid, other=0)
    blocks = tl.load(table_ptrs + table, mask=valid, other=0).to(tl.pointer_type(tl.int32))
    blocks += row * table_row_stride
    row_hashes = hashes + row[:, None] * hashes_stride
    total = tl.full((ITEMS,), 0, tl.int64)
    for first in range(0, max_of(c), POSITIONS):
        position = tl.arange(0, POSITIONS).to(tl.int64)[None, :] + first
        used = position < c[:, None]
        column = position // block_size
        mask = used & (column < table_row_stride)
        block = tl.load(blocks[:, None] + column, mask=mask, other=-1).to(tl.int64)
        in_pool = (block >= 0) & (block < num_blocks)
        found = used & in_pool
        within = position % block_size * row_bytes[:, None]
        place = start + block * page_bytes + within
        error = row_errors(
            pool,
            place,
            found,
            position,
            tl.load(row_hashes + position + 1, mask=found, other=0),
            salt,
            row_bytes,
            chunk,
            chunk_stride,
            pool,
            place,
            found,
            MAX_BYTES,
            BYTES,
            False,
        )
        error = error * (2 * position + 3)
        total += sum_along(tl.where(used & (in_pool == 0), block * BAD_BLOCK, error), axis=1)
    column = tl.load(field, mask=valid, other=0).to(tl.int64)
    tl.store(damage + row * NUM_UNITS + column, total, mask=valid)


@triton.jit(do_not_specialize=["num_rows"])
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
    NUM_STATES: tl.constexpr,
    NUM_UNITS: tl.constexpr,
    NUM_COLUMNS: tl.constexpr,
    WINDOW: tl.constexpr,
    MAX_BYTES: tl.constexpr,
    ITEMS: tl.constexpr,
    ROWS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """The new recurrent states, from `damage` and `kept`; a wrong target block adds to `damage`."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = item // num_rows
    row = item % num_rows
    valid = unit < NUM_STATES
    slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
    field = unit_fields + unit * 8
    table = tl.load(field + 1, mask=valid, other=0).to(tl.int64)
    conv = tl.load(field + 2, mask=valid, other=0).to(tl.int64) != 0
    row_stride = tl.load(field + 5, mask=valid, other=0).to(tl.int64)
    start = tl.load(unit_starts + unit, mask=valid, other=0)
    spot = damage + row * NUM_UNITS + tl.load(field, mask=valid, other=0).to(tl.int64)
    own = tl.load(spot, mask=valid, other=0)
    incoming = tl.load(activation_in + row, mask=valid, other=0)
    carried = incoming + (own.to(tl.uint64) * _GOLDEN).to(tl.int64)

    q = tl.arange(0, ROWS).to(tl.int64)[None, :]
    back = tl.where(conv, WINDOW, 1)
    count = tl.minimum(tl.where(spec, n, 1), NUM_COLUMNS) + back - 1
    used = (q < count[:, None]) & (n > 0)[:, None]
    position = (tl.where(spec, c + 1, c + n) - back)[:, None] + q
    at = ((table * state_indices_rows + row) * NUM_COLUMNS)[:, None] + tl.where(conv[:, None], 0, q)
    block = tl.load(state_indices + at, mask=used, other=-1).to(tl.int64)
    in_pool = (block >= 0) & (block < num_blocks)
    written = used & in_pool
    fresh = written & (position >= c[:, None])
    row_hashes = hashes + row[:, None] * hashes_stride
    key = tl.load(row_hashes + position + 1, mask=fresh, other=0) + carried[:, None]
    key = key ^ tl.load(unit_salts + unit, mask=valid, other=0)[:, None]
    within = tl.where(conv[:, None], q * row_stride[:, None], 0)
    source = position - (c[:, None] - WINDOW)
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
        (item[:, None] * WINDOW + source) * MAX_BYTES,
        written & (position >= 0) & (position < c[:, None]),
        MAX_BYTES,
        BYTES,
        True,
    )
    missed = sum_along(tl.where(used & (in_pool == 0), block * BAD_BLOCK, 0), axis=1)
    tl.store(spot, own + missed, mask=valid & (missed != 0))


@triton.jit(do_not_specialize=["num_rows"])
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
    NUM_STATES: tl.constexpr,
    NUM_UNITS: tl.constexpr,
    MAX_BYTES: tl.constexpr,
    ITEMS: tl.constexpr,
    POSITIONS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """The attention rows of a step's positions; a wrong target block adds to `damage`."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = NUM_STATES + item // num_rows
    row = item % num_rows
    valid = unit < NUM_UNITS
    slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
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
            MAX_BYTES,
            BYTES,
            False,
        )
        missed += sum_along(tl.where(used & (in_pool == 0), block * BAD_BLOCK, 0), axis=1)
    spot = damage + row * NUM_UNITS + tl.load(field, mask=valid, other=0).to(tl.int64)
    own = tl.load(spot, mask=valid & (missed != 0), other=0)
    tl.store(spot, own + missed, mask=valid & (missed != 0))
