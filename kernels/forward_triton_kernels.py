"""The read kernel and the write kernel of the stand-in forward; `forward_triton` launches them.

Each program takes a tile of items, (unit, row) pairs; the first `state_programs` take recurrent states, the
rest attention layers. Here is decided which rows an item reads and writes (see `forward.forward`); the rows
themselves are handled by `forward_triton_rows`. Shapes: I items, Q positions or window rows.

`unit_fields` is int32 [units, 8]: damage column, table, conv, block size, row bytes, row stride, chunk, chunk
stride, as in `forward_plan.UnitClass`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.forward_triton_rows import digest, row_errors, row_facts, write_rows
from stalerow.kernels.patterns import GOLDEN

_GOLDEN = tl.constexpr(GOLDEN)


@triton.jit
def read_kernel(
    pool,
    page_bytes: tl.int64,
    num_blocks,
    unit_fields,
    unit_starts,
    unit_salts,
    state_indices,
    state_indices_rows,
    table_ptrs,
    table_row_stride: tl.int64,
    idx_mapping,
    query_start_loc,
    seq_lens,
    is_spec,
    num_accepted,
    hashes,
    hashes_stride: tl.int64,
    activation_in,
    damage,
    kept,
    num_rows,
    state_programs,
    NUM_STATES: tl.constexpr,
    NUM_UNITS: tl.constexpr,
    NUM_COLUMNS: tl.constexpr,
    WINDOW: tl.constexpr,
    STATE_BYTES: tl.constexpr,
    KV_BYTES: tl.constexpr,
    STATE_ITEMS: tl.constexpr,
    STATE_ROWS: tl.constexpr,
    STATE_BYTE_BLOCK: tl.constexpr,
    KV_ITEMS: tl.constexpr,
    KV_POSITIONS: tl.constexpr,
    KV_BYTE_BLOCK: tl.constexpr,
):
    """`damage[row, unit]` of everything a step reads, and `kept[unit, row]`, the conv rows that were read."""
    program = tl.program_id(0)
    if program < state_programs:
        item = program * STATE_ITEMS + tl.arange(0, STATE_ITEMS)
        unit = item // num_rows
        row = item % num_rows
        valid = unit < NUM_STATES
        slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
        field = unit_fields + unit * 8
        table = tl.load(field + 1, mask=valid, other=0)
        conv = tl.load(field + 2, mask=valid, other=0) != 0
        row_stride = tl.load(field + 5, mask=valid, other=0)
        start = tl.load(unit_starts + unit, mask=valid, other=0)

        reads = (n > 0) & (c > 0)
        offset = tl.load(num_accepted + slot, mask=reads & spec, other=1) - 1
        inside = reads & (offset >= 0) & (offset < NUM_COLUMNS)
        at = (table * state_indices_rows + row) * NUM_COLUMNS + tl.where(conv, 0, offset)
        block = tl.load(state_indices + at, mask=inside, other=-1).to(tl.int64)
        in_pool = (block >= 0) & (block < num_blocks)

        q = tl.arange(0, STATE_ROWS)[None, :]
        count = tl.where(conv, WINDOW, 1)[:, None]
        position = c[:, None] - count + q
        found = (q < count) & (reads & in_pool)[:, None]
        within = ((tl.where(conv, offset, 0)[:, None] + q) * row_stride[:, None]).to(tl.int64)
        expected = tl.load(
            hashes + row.to(tl.int64)[:, None] * hashes_stride + position + 1,
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
            tl.load(field + 4, mask=valid, other=0),
            tl.load(field + 6, mask=valid, other=1),
            tl.load(field + 7, mask=valid, other=0),
            kept,
            (item.to(tl.int64)[:, None] * WINDOW + q) * STATE_BYTES,
            (q < WINDOW) & (valid & conv)[:, None],
            STATE_BYTES,
            STATE_BYTE_BLOCK,
            True,
        )
        weight = tl.where(conv[:, None], 2 * q + 3, 1).to(tl.int64)
        total = tl.sum(error * weight, axis=1) + tl.where(reads & (in_pool == 0), digest(block), 0)
        column = tl.load(field, mask=valid, other=0)
        tl.store(damage + row.to(tl.int64) * NUM_UNITS + column, total, mask=valid)
    else:
        item = (program - state_programs) * KV_ITEMS + tl.arange(0, KV_ITEMS)
        unit = NUM_STATES + item // num_rows
        row = item % num_rows
        valid = unit < NUM_UNITS
        slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
        c = tl.where(n > 0, c, 0)
        field = unit_fields + unit * 8
        table = tl.load(field + 1, mask=valid, other=0)
        block_size = tl.load(field + 3, mask=valid, other=1)[:, None]
        row_bytes = tl.load(field + 4, mask=valid, other=0)
        chunk = tl.load(field + 6, mask=valid, other=1)
        chunk_stride = tl.load(field + 7, mask=valid, other=0)
        start = tl.load(unit_starts + unit, mask=valid, other=0)[:, None]
        salt = tl.load(unit_salts + unit, mask=valid, other=0)
        blocks = tl.load(table_ptrs + table, mask=valid, other=0).to(tl.pointer_type(tl.int32))
        blocks += row.to(tl.int64) * table_row_stride
        row_hashes = hashes + row.to(tl.int64)[:, None] * hashes_stride
        total = tl.zeros((KV_ITEMS,), tl.int64)
        for first in range(0, tl.max(c, axis=0), KV_POSITIONS):
            position = first + tl.arange(0, KV_POSITIONS)[None, :]
            used = position < c[:, None]
            column = position // block_size
            mask = used & (column < table_row_stride)
            block = tl.load(blocks[:, None] + column, mask=mask, other=-1).to(tl.int64)
            in_pool = (block >= 0) & (block < num_blocks)
            found = used & in_pool
            within = (position % block_size * row_bytes[:, None]).to(tl.int64)
            error = row_errors(
                pool,
                start + block * page_bytes + within,
                found,
                position,
                tl.load(row_hashes + position + 1, mask=found, other=0),
                salt,
                row_bytes,
                chunk,
                chunk_stride,
                kept,
                block,
                found,
                KV_BYTES,
                KV_BYTE_BLOCK,
                False,
            )
            error = error * (2 * position + 3).to(tl.int64)
            total += tl.sum(tl.where(used & (in_pool == 0), digest(block), error), axis=1)
        column = tl.load(field, mask=valid, other=0)
        tl.store(damage + row.to(tl.int64) * NUM_UNITS + column, total, mask=valid)


@triton.jit
def write_kernel(
    pool,
    page_bytes: tl.int64,
    num_blocks,
    unit_fields,
    unit_starts,
    unit_salts,
    state_indices,
    state_indices_rows,
    table_ptrs,
    table_row_stride: tl.int64,
    idx_mapping,
    query_start_loc,
    seq_lens,
    is_spec,
    num_accepted,
    hashes,
    hashes_stride: tl.int64,
    activation_in,
    damage,
    kept,
    num_rows,
    state_programs,
    NUM_STATES: tl.constexpr,
    NUM_UNITS: tl.constexpr,
    NUM_COLUMNS: tl.constexpr,
    WINDOW: tl.constexpr,
    STATE_BYTES: tl.constexpr,
    KV_BYTES: tl.constexpr,
    STATE_ITEMS: tl.constexpr,
    STATE_ROWS: tl.constexpr,
    STATE_BYTE_BLOCK: tl.constexpr,
    KV_ITEMS: tl.constexpr,
    KV_POSITIONS: tl.constexpr,
    KV_BYTE_BLOCK: tl.constexpr,
):
    """Everything a step writes, from `damage` and `kept` alone; a wrong target block adds to `damage`."""
    program = tl.program_id(0)
    if program < state_programs:
        item = program * STATE_ITEMS + tl.arange(0, STATE_ITEMS)
        unit = item // num_rows
        row = item % num_rows
        valid = unit < NUM_STATES
        slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
        field = unit_fields + unit * 8
        table = tl.load(field + 1, mask=valid, other=0)
        conv = tl.load(field + 2, mask=valid, other=0) != 0
        row_stride = tl.load(field + 5, mask=valid, other=0)
        start = tl.load(unit_starts + unit, mask=valid, other=0)
        spot = damage + row.to(tl.int64) * NUM_UNITS + tl.load(field, mask=valid, other=0)
        own = tl.load(spot, mask=valid, other=0)
        incoming = tl.load(activation_in + row, mask=valid, other=0)
        carried = incoming + (own.to(tl.uint64) * _GOLDEN).to(tl.int64)

        q = tl.arange(0, STATE_ROWS)[None, :]
        back = tl.where(conv, WINDOW, 1)
        count = tl.minimum(tl.where(spec, n, 1), NUM_COLUMNS) + back - 1
        used = (q < count[:, None]) & (n > 0)[:, None]
        position = (tl.where(spec, c + 1, c + n) - back)[:, None] + q
        at = ((table * state_indices_rows + row) * NUM_COLUMNS)[:, None] + tl.where(conv[:, None], 0, q)
        block = tl.load(state_indices + at, mask=used, other=-1).to(tl.int64)
        in_pool = (block >= 0) & (block < num_blocks)
        written = used & in_pool
        fresh = written & (position >= c[:, None])
        row_hashes = hashes + row.to(tl.int64)[:, None] * hashes_stride
        key = tl.load(row_hashes + position + 1, mask=fresh, other=0) + carried[:, None]
        key = key ^ tl.load(unit_salts + unit, mask=valid, other=0)[:, None]
        within = tl.where(conv[:, None], q * row_stride[:, None], 0).to(tl.int64)
        source = position - (c[:, None] - WINDOW)
        write_rows(
            pool,
            start[:, None] + block * page_bytes + within,
            written,
            fresh,
            key,
            tl.load(field + 4, mask=valid, other=0),
            tl.load(field + 6, mask=valid, other=1),
            tl.load(field + 7, mask=valid, other=0),
            kept,
            (item.to(tl.int64)[:, None] * WINDOW + source) * STATE_BYTES,
            written & (position >= 0) & (position < c[:, None]),
            STATE_BYTES,
            STATE_BYTE_BLOCK,
            True,
        )
        missed = tl.sum(tl.where(used & (in_pool == 0), digest(block), 0), axis=1)
        tl.store(spot, own + missed, mask=valid & (missed != 0))
    else:
        item = (program - state_programs) * KV_ITEMS + tl.arange(0, KV_ITEMS)
        unit = NUM_STATES + item // num_rows
        row = item % num_rows
        valid = unit < NUM_UNITS
        slot, c, n, spec = row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec)
        field = unit_fields + unit * 8
        table = tl.load(field + 1, mask=valid, other=0)
        block_size = tl.load(field + 3, mask=valid, other=1)[:, None]
        row_bytes = tl.load(field + 4, mask=valid, other=0)
        chunk = tl.load(field + 6, mask=valid, other=1)
        chunk_stride = tl.load(field + 7, mask=valid, other=0)
        start = tl.load(unit_starts + unit, mask=valid, other=0)[:, None]
        salt = tl.load(unit_salts + unit, mask=valid, other=0)[:, None]
        blocks = tl.load(table_ptrs + table, mask=valid, other=0).to(tl.pointer_type(tl.int32))
        blocks += row.to(tl.int64) * table_row_stride
        row_hashes = hashes + row.to(tl.int64)[:, None] * hashes_stride
        incoming = tl.load(activation_in + row, mask=valid, other=0)[:, None]
        missed = tl.zeros((KV_ITEMS,), tl.int64)
        for first in range(0, tl.max(n, axis=0), KV_POSITIONS):
            i = first + tl.arange(0, KV_POSITIONS)[None, :]
            used = i < n[:, None]
            position = c[:, None] + i
            column = position // block_size
            mask = used & (column < table_row_stride)
            block = tl.load(blocks[:, None] + column, mask=mask, other=-1).to(tl.int64)
            in_pool = (block >= 0) & (block < num_blocks)
            written = used & in_pool
            within = (position % block_size * row_bytes[:, None]).to(tl.int64)
            key = (tl.load(row_hashes + position + 1, mask=written, other=0) + incoming) ^ salt
            write_rows(
                pool,
                start + block * page_bytes + within,
                written,
                written,
                key,
                row_bytes,
                chunk,
                chunk_stride,
                kept,
                block,
                written,
                KV_BYTES,
                KV_BYTE_BLOCK,
                False,
            )
            missed += tl.sum(tl.where(used & (in_pool == 0), digest(block), 0), axis=1)
        spot = damage + row.to(tl.int64) * NUM_UNITS + tl.load(field, mask=valid, other=0)
        own = tl.load(spot, mask=valid & (missed != 0), other=0)
        tl.store(spot, own + missed, mask=valid & (missed != 0))
