"""What the stand-in forward does to single rows: identify, check and write them. Device functions.

`forward_triton_read` and `forward_triton_write` work out where the rows are. Shapes: I items (unit, row), Q
positions or window rows, B bytes. Byte patterns are those of `patterns`, in uint64; sums and damage wrap in
int64.
"""

from __future__ import annotations

import triton.language as tl

from stalerow.kernels.base.jit import device_function, sum_along
from stalerow.kernels.base.patterns import GOLDEN, MIX_1, MIX_2

_GOLDEN = tl.constexpr(GOLDEN)
_MIX_1 = tl.constexpr(MIX_1)
_MIX_2 = tl.constexpr(MIX_2)
BAD_BLOCK = tl.constexpr(MIX_2 >> 1 | 1)
"""Odd: a block id outside the pool, which is not 0, counts as damage `id * BAD_BLOCK`, not 0 either."""


@device_function
def mix64(x):
    """The splitmix64 finaliser of a uint64 tensor."""
    x = (x ^ (x >> 30)) * _MIX_1
    x = (x ^ (x >> 27)) * _MIX_2
    return x ^ (x >> 31)


@device_function
def pattern_bytes(key, j):
    """Bytes `j` (int64 [B]) of the patterns of `key` (uint64 [I, Q]): uint64 [I, Q, B], each below 256."""
    step = (j // 8).to(tl.uint64) * _GOLDEN
    word = mix64(key[:, :, None] + step[None, None, :])
    word = tl.where((j < 8)[None, None, :], key[:, :, None], word)
    return (word >> (j % 8 * 8).to(tl.uint64)[None, None, :]) & 255


@device_function
def row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec):
    """(slot, c, n, spec) of each item; `n` is 0 for a row that does not compute."""
    slot = tl.load(idx_mapping + row, mask=valid, other=-1).to(tl.int64)
    live = slot >= 0
    begin = tl.load(query_start_loc + row, mask=live, other=0).to(tl.int64)
    n = tl.maximum(tl.load(query_start_loc + 1 + row, mask=live, other=0).to(tl.int64) - begin, 0)
    c = tl.load(seq_lens + row, mask=live, other=0).to(tl.int64) - n
    spec = tl.load(is_spec + row, mask=live, other=0) != 0
    return slot, c, n, spec


@device_function
def byte_places(j, chunk, chunk_stride):
    """Offset of byte `j` (int64 [B]) of each item's row from the row's first byte: int64 [I, 1, B]."""
    j = j[None, :]
    place = j // chunk[:, None] * chunk_stride[:, None] + j % chunk[:, None]
    return place[:, None, :]


@device_function
def row_keys(pool, place, found, chunk, chunk_stride):
    """The key of each row, its first 8 bytes: int64 [I, Q], 0 where `found` is false."""
    j = tl.arange(0, 8).to(tl.int64)
    at = place[:, :, None] + byte_places(j, chunk, chunk_stride)
    head = tl.load(pool + at, mask=found[:, :, None], other=0).to(tl.int64)
    return sum_along(head << (j * 8)[None, None, :], axis=2)


@device_function
def row_errors(
    pool,
    place,
    found,
    position,
    expected,
    salt,
    row_bytes,
    chunk,
    chunk_stride,
    kept,
    kept_row,
    keep,
    max_bytes,
    BYTES: tl.constexpr,
    KEEP: tl.constexpr,
    TORN: tl.constexpr,
):
    """What is wrong with each row read: int64 [I, Q], 0 where `found` is false or the row is as expected.

    `place` (int64 [I, Q]) is the row's offset in the pool. With `KEEP` (recurrent states), rows before
    position 0 are expected to be zero, and the rows of `keep` ([I, Q]) are copied to `kept[kept_row]`, as
    zeros where not `found`.
    """
    key = row_keys(pool, place, found, chunk, chunk_stride)
    error = (key ^ salt[:, None]) - expected
    # A row of 8 bytes is its key: nothing past it can be torn, and without `KEEP` nothing is kept.
    if TORN:
        torn = tl.full(place.shape, 0, tl.int64)
        residue = tl.full(place.shape, 0, tl.int64)
        for first in range(0, max_bytes, BYTES):
            j = tl.arange(0, BYTES).to(tl.int64) + first
            at = place[:, :, None] + byte_places(j, chunk, chunk_stride)
            inside = (j[None, :] < row_bytes[:, None])[:, None, :]
            mask = found[:, :, None] & inside
            data = tl.load(pool + at, mask=mask, other=0)
            if KEEP:
                spot = kept_row[:, :, None] + j[None, None, :]
                tl.store(kept + spot, data, mask=keep[:, :, None] & inside)
            byte = data.to(tl.int64)
            weight = (j + 1)[None, None, :]
            wrong = byte ^ pattern_bytes(key.to(tl.uint64), j).to(tl.int64)
            counts = mask & (wrong != 0) & (j >= 8)[None, None, :]
            torn += sum_along(tl.where(counts, (wrong + 1) * weight, 0), axis=2)
            if KEEP:
                residue += sum_along(byte * weight, axis=2)
        error = error + (torn.to(tl.uint64) * _GOLDEN).to(tl.int64)
        if KEEP:
            error = tl.where(position < 0, residue, error)
    return tl.where(found, error, 0)


@device_function
def write_rows(
    pool,
    place,
    written,
    fresh,
    key,
    row_bytes,
    chunk,
    chunk_stride,
    kept,
    kept_row,
    moved,
    max_bytes,
    BYTES: tl.constexpr,
    MOVE: tl.constexpr,
):
    """Store each `written` row: the pattern of `key` where `fresh`, else the kept row if `moved`, else zeros."""
    for first in range(0, max_bytes, BYTES):
        j = tl.arange(0, BYTES).to(tl.int64) + first
        at = place[:, :, None] + byte_places(j, chunk, chunk_stride)
        mask = written[:, :, None] & (j[None, :] < row_bytes[:, None])[:, None, :]
        data = pattern_bytes(key.to(tl.uint64), j).to(tl.uint8)
        if MOVE:
            spot = kept_row[:, :, None] + j[None, None, :]
            old = tl.load(kept + spot, mask=mask & moved[:, :, None], other=0)
            data = tl.where(fresh[:, :, None], data, old)
        tl.store(pool + at, data, mask=mask)
