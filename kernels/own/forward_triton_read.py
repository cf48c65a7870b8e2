"""What a step reads: the kernels that check every initial state and every attention position.

`forward_triton` launches them before those of `forward_triton_write`. Each program takes a tile of items,
(unit, row) pairs; here is decided which rows an item reads (see `forward.forward`), and `forward_triton_rows`
reads them. Shapes: I items, Q positions or window rows.

`unit_fields` is int32 [units, 8]: damage column, table, conv, block size, row bytes, row stride, chunk, chunk
stride, as in `forward_classes.UnitClass`. `kept` is uint8 [states, rows, window, max_bytes].
"""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.base.jit import max_of, sum_along
from stalerow.kernels.own.forward_triton_rows import BAD_BLOCK, row_errors, row_facts


@triton.jit(do_not_specialize=["num_rows", "num_states", "num_units", "num_columns", "window", "max_bytes"])
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
    num_states,
    num_units,
    num_columns,
    window,
    max_bytes,
    ITEMS: tl.constexpr,
    ROWS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """`damage[row, unit]` of the recurrent states, and `kept[unit, row]`, the conv rows that were read."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = item // num_rows
    row = item % num_rows
    valid = unit < num_states
    slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
    field = unit_fields + unit * 8
    table = tl.load(field + 1, mask=valid, other=0).to(tl.int64)
    conv = tl.load(field + 2, mask=valid, other=0).to(tl.int64) != 0
    row_stride = tl.load(field + 5, mask=valid, other=0).to(tl.int64)
    start = tl.load(unit_starts + unit, mask=valid, other=0)

    reads = (n > 0) & (c > 0)
    offset = tl.load(num_accepted + slot, mask=reads & spec, other=1).to(tl.int64) - 1
    inside = reads & (offset >= 0) & (offset < num_columns)
    at = (table * state_indices_rows + row) * num_columns + tl.where(conv, 0, offset)
    block = tl.load(state_indices + at, mask=inside, other=-1).to(tl.int64)
    in_pool = (block >= 0) & (block < num_blocks)

    q = tl.arange(0, ROWS).to(tl.int64)[None, :]
    count = tl.where(conv, window, 1)[:, None]
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
        (item[:, None] * window + q) * max_bytes,
        (q < window) & (valid & conv)[:, None],
        max_bytes,
        BYTES,
        True,
        True,
    )
    weight = tl.where(conv[:, None], 2 * q + 3, 1)
    total = sum_along(error * weight, axis=1) + tl.where(reads & (in_pool == 0), block * BAD_BLOCK, 0)
    column = tl.load(field, mask=valid, other=0).to(tl.int64)
    tl.store(damage + row * num_units + column, total, mask=valid)


@triton.jit(do_not_specialize=["num_rows", "num_states", "num_units", "max_bytes"])
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
    num_states,
    num_units,
    max_bytes,
    ITEMS: tl.constexpr,
    POSITIONS: tl.constexpr,
    BYTES: tl.constexpr,
    TORN: tl.constexpr,
):
    """`damage[row, unit]` of the attention layers."""
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    unit = num_states + item // num_rows
    row = item % num_rows
    valid = unit < num_units
    _, c, n, _ = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
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
            max_bytes,
            BYTES,
            False,
            TORN,
        )
        error = error * (2 * position + 3)
        total += sum_along(tl.where(used & (in_pool == 0), block * BAD_BLOCK, error), axis=1)
    column = tl.load(field, mask=valid, other=0).to(tl.int64)
    tl.store(damage + row * num_units + column, total, mask=valid)
