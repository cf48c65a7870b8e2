"""What the stand-in forward does to single rows: identify, check and write them. Device functions.

`forward_triton_kernels` works out where the rows are and calls these. Shapes: I items (unit, row), Q positions
or window rows, B bytes. Byte patterns are those of `patterns`, in uint64; sums and damage wrap in int64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.patterns import GOLDEN, MIX_1, MIX_2

_GOLDEN = tl.constexpr(GOLDEN)
_MIX_1 = tl.constexpr(MIX_1)
_MIX_2 = tl.constexpr(MIX_2)


@triton.jit
def mix64(x):
    """The splitmix64 finaliser of a uint64 tensor."""
    x = (x ^ (x >> 30)) * _MIX_1
    x = (x ^ (x >> 27)) * _MIX_2
    return x ^ (x >> 31)


@triton.jit
def pattern_bytes(key, j):
    """Bytes `j` (int32 [B]) of the patterns of `key` (uint64 [I, Q]): uint64 [I, Q, B], each below 256."""
    step = (j // 8).to(tl.uint64) * _GOLDEN
    word = mix64(key[:, :, None] + step[None, None, :])
    word = tl.where((j < 8)[None, None, :], key[:, :, None], word)
    return (word >> (j % 8 * 8).to(tl.uint64)[None, None, :]) & 255


@triton.jit
def digest(x):
    """`mix64(x) | 1` of an int64 tensor, as int64: never 0."""
    return (mix64(x.to(tl.uint64)) | 1).to(tl.int64)


@triton.jit
def row_facts(valid, row, idx_mapping, query_start_loc, seq_lens, is_spec):
    """(slot, c, n, spec) of each item; `n` is 0 for a row that does not compute."""
    slot = tl.load(idx_mapping + row, mask=valid, other=-1).to(tl.int64)
    live = slot >= 0
    begin = tl.load(query_start_loc + row, mask=live, other=0)
    n = tl.maximum(tl.load(query_start_loc + row + 1, mask=live, other=0) - begin, 0)
    c = tl.load(seq_lens + row, mask=live, other=0) - n
    spec = tl.load(is_spec + row, mask=live, other=0) != 0
    return slot, c, n, spec


@triton.jit
def byte_places(j, chunk, chunk_stride):
    """Offset of byte `j` (int32 [B]) of each item's row from the row's first byte: int64 [I, 1, B]."""
    j = j[None, :]
    place = j // chunk[:, None] * chunk_stride[:, None] + j % chunk[:, None]
    return place.to(tl.int64)[:, None, :]


@triton.jit
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
    MAX_BYTES: tl.constexpr,
    BYTES: tl.constexpr,
    KEEP: tl.constexpr,
):
    """What is wrong with each row read: int64 [I, Q], 0 where `found` is false or the row is as expected.

    `place` (int64 [I, Q]) is the row's offset in the pool. Rows before position 0 are expected to be zero.
    With `KEEP`, the rows of `keep` ([I, Q]) are copied to `kept[kept_row]`, as zeros where not `found`.
    """
    j = tl.arange(0, 8)
    at = place[:, :, None] + byte_places(j, chunk, chunk_stride)
    head = tl.load(pool + at, mask=found[:, :, None], other=0).to(tl.uint64)
    key = tl.sum((head << (j * 8).to(tl.uint64)[None, None, :]).to(tl.int64), axis=2)
    torn = tl.zeros_like(place)
    residue = tl.zeros_like(place)
    for first in range(0, MAX_BYTES, BYTES):
        j = first + tl.arange(0, BYTES)
        at = place[:, :, None] + byte_places(j, chunk, chunk_stride)
        mask = found[:, :, None] & (j[None, :] < row_bytes[:, None])[:, None, :]
        data = tl.load(pool + at, mask=mask, other=0)
        if KEEP:
            spot = kept_row[:, :, None] + j[None, None, :]
            tl.store(kept + spot, data, mask=keep[:, :, None] & (j[None, :] < row_bytes[:, None])[:, None, :])
        byte = data.to(tl.uint64)
        wrong = (byte ^ pattern_bytes(key.to(tl.uint64), j)).to(tl.int64)
        weight = (j + 1).to(tl.int64)[None, None, :]
        counts = mask & (wrong != 0) & (j >= 8)[None, None, :]
        torn += tl.sum(tl.where(counts, (wrong + 1) * weight, 0), axis=2)
        residue += tl.sum(byte.to(tl.int64) * weight, axis=2)
    error = (key ^ salt[:, None]) - expected + tl.where(torn != 0, digest(torn), 0)
    error = tl.where(position < 0, residue, error)
    return tl.where(found, error, 0)


@triton.jit
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
    MAX_BYTES: tl.constexpr,
    BYTES: tl.constexpr,
    MOVE: tl.constexpr,
):
    """Store each `written` row: the pattern of `key` where `fresh`, else the kept row if `moved`, else zeros."""
    for first in range(0, MAX_BYTES, BYTES):
        j = first + tl.arange(0, BYTES)
        at = place[:, :, None] + byte_places(j, chunk, chunk_stride)
        mask = written[:, :, None] & (j[None, :] < row_bytes[:, None])[:, None, :]
        data = pattern_bytes(key.to(tl.uint64), j).to(tl.uint8)
        if MOVE:
            spot = kept_row[:, :, None] + j[None, None, :]
            old = tl.load(kept + spot, mask=mask & moved[:, :, None], other=0)
            data = tl.where(fresh[:, :, None], data, old)
        tl.store(pool + at, data, mask=mask)
