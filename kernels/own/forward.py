"""The stand-in forward: reads what a model would read, says whether it was right, writes what follows. Reference.

Instead of mathematics it handles identity (`patterns`): `hashes[row, t]` names the state after exactly `t`
tokens of the row's request. A read that finds anything else is *damage*; damage goes into everything the row
writes and on to the next pipeline rank, as NaNs would. It reads the blocks of the aligned indices and the
gathered attention tables, after precopy; the rank collects `damage` and `activation_out`. Triton twin:
`forward_triton`.

The launch reads everything before it writes anything. Writes go class by class in `ForwardClasses` order, then
by unit, row and position; that order matters only if a fault makes two of them hit the same byte.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stalerow.kernels.base.device import Array, HostArray
from stalerow.kernels.base.memory import BlockTables, OutOfBounds, Pool, SlotState, live_rows
from stalerow.kernels.base.patterns import GOLDEN, pattern, signed, torn
from stalerow.kernels.own.forward_classes import UnitClass, forward_classes
from stalerow.kernels.own.forward_spans import KvSpans, takes_spans

CARRY = signed(GOLDEN)


class ForwardStep(NamedTuple):
    """One step's batch. `c = seq_len - query_len` is a row's tokens before the step, `n = query_len`."""

    idx_mapping: Array
    """int64 [rows]"""
    query_start_loc: Array
    """int32 [max_reqs + 1]"""
    seq_lens: Array
    """int32 [max_reqs]"""
    state_indices: Array
    """int32 [num_recurrent_groups, max_reqs, K + 1], from the aligned indices"""
    is_spec: Array
    """int32 [rows]: 1 for a decode row of a model with drafts; such a row has at most K + 1 tokens"""
    hashes: Array
    """int64 [rows, L]: hash of the row's first t tokens for t = 0..c + n; those past c include the drafts"""
    activation_in: Array
    """int64 [rows]: damage from the previous rank"""
    num_rows: int


class _Rows(NamedTuple):
    """The rows that compute, one element each."""

    row: HostArray
    c: HostArray
    n: HostArray
    spec: HostArray
    offset: HostArray
    """Accepted drafts past the running column: `num_accepted - 1` on a spec row, else 0."""
    activation: HostArray


def forward(
    pool: Pool,
    tables: BlockTables,
    slots: SlotState,
    step: ForwardStep,
    damage: HostArray,
    activation_out: HostArray,
) -> None:
    """One forward of every layer. `damage` int64 [rows, units] (`forward_classes`), `activation_out` int64 [rows].

    With `E` the damage of a unit and `carried = activation_in + E * GOLDEN` (wrapping):

    * temporal state: reads `block(columns[offset])`, expects hash `c`; a spec row writes the state after its
      j-th token to `block(columns[j])`, a plain row the state after its last one to `block(columns[0])`;
    * conv window of `block(columns[0])`: reads rows `offset..offset + w`, `w = conv_kernel - 1`, expects
      positions `c - w..c` (zero bytes before position 0); a spec row writes rows `0..w - 1 + n` =
      positions `c + 1 - w..c + n`, a plain row rows `0..w` = positions `c + n - w..c + n`; positions before
      `c` are moved byte by byte from what was read;
    * attention layer: reads positions `0..c`, writes `c..c + n`, without its own damage.

    States are read only if `c > 0`. A wrong row counts `(key ^ salt) - hash` plus `patterns.torn`; a window's
    row `i` is weighted `2i + 3`, a position `p` of attention `2p + 3`. `activation_out` is `activation_in`
    plus the row's damages. Rows without a slot or tokens only pass the activation on. Rows past `num_rows`
    likewise.

    Raises OutOfBounds for a wrong block id or column, or a token count that `hashes` does not cover, before
    anything is touched; ValueError if a spec row has more than K + 1 tokens.
    """
    classes = forward_classes(pool.layout)
    damage[...] = 0
    activation_out[...] = step.activation_in
    rows = _select(pool, slots, step)
    if rows.row.size == 0:
        return

    recurrent_blocks = _state_blocks(pool, step, rows)
    spans, attention = [], []
    if takes_spans(pool.layout, classes):
        spans = [KvSpans(pool, tables, cls, rows.row, rows.c, rows.n) for cls in classes.attention]
    else:
        attention = [(cls, *_kv_addresses(pool, tables, rows, cls)) for cls in classes.attention]

    kept = [_read_states(pool, step, rows, cls, recurrent_blocks, damage) for cls in classes.recurrent]
    for cls, read, _ in attention:
        _read_kv(pool, step, cls, rows, read, damage)
    for span in spans:
        span.read(step.hashes, damage)

    for cls, window in zip(classes.recurrent, kept):
        write = _write_window if cls.conv else _write_temporal
        write(pool, step, rows, cls, recurrent_blocks, window, damage)
    for cls, _, written in attention:
        _write_kv(pool, step, cls, rows, written)
    for span in spans:
        span.write(step.hashes, rows.activation)
    activation_out += damage.sum(axis=1)


def _select(pool: Pool, slots: SlotState, step: ForwardStep) -> _Rows:
    row, ids = live_rows(step.idx_mapping, step.num_rows)
    n = step.query_start_loc[row + 1] - step.query_start_loc[row]
    if (n <= 0).any():
        row, ids, n = row[n > 0], ids[n > 0], n[n > 0]
    c = step.seq_lens[row] - n
    spec = step.is_spec[row] != 0
    columns = pool.layout.num_drafts + 1
    longest = step.hashes.shape[1] - 1
    if (wrong := np.flatnonzero((c < 0) | (c + n > longest))).size:
        i = int(wrong[0])
        raise OutOfBounds("hashes", int(row[i]), int(c[i] + n[i]), None, longest + 1)
    if (wrong := np.flatnonzero(spec & (n > columns))).size:
        i = int(wrong[0])
        raise ValueError(f"spec row {row[i]} has {n[i]} tokens; expected at most K + 1 = {columns}")
    offset = np.where(spec & (c > 0), slots.num_accepted[ids] - 1, 0)
    if (wrong := np.flatnonzero((offset < 0) | (offset >= columns))).size:
        i = int(wrong[0])
        raise OutOfBounds("state_indices", int(row[i]), int(offset[i]), None, columns)
    return _Rows(row, c.astype(np.int64), n.astype(np.int64), spec, offset, step.activation_in[row])


def _state_blocks(pool: Pool, step: ForwardStep, rows: _Rows) -> HostArray:
    """Block ids int64 [groups, rows, K + 1]; checked where the rows read or write."""
    blocks = step.state_indices[:, rows.row].astype(np.int64)
    last = np.where(rows.spec, np.maximum(rows.n - 1, rows.offset), 0)
    used = np.arange(blocks.shape[2]) <= last[:, None]
    bad = used & ((blocks < 0) | (blocks >= pool.layout.num_blocks))
    if bad.any():
        g, i, column = (int(x) for x in np.argwhere(bad)[0])
        block = int(blocks[g, i, column])
        raise OutOfBounds(f"state_indices[{g}]", int(rows.row[i]), column, block, pool.layout.num_blocks)
    return blocks


def _read_states(
    pool: Pool, step: ForwardStep, rows: _Rows, cls: UnitClass, blocks: HostArray, damage: HostArray
) -> HostArray:
    """Check the initial states; returns what was read, uint8 [units, rows, w, row_bytes] (w = 1: temporal)."""
    window = pool.layout.window if cls.conv else 1
    i = np.arange(window)
    column = 0 if cls.conv else rows.offset
    block = blocks[cls.table[:, None], np.arange(rows.row.size), column]
    start = cls.start[:, None] + block * pool.layout.page_bytes
    row_offset = (rows.offset[:, None] + i if cls.conv else i[None]) * cls.row_stride
    read = _load(pool, start[..., None] + row_offset, cls)

    position = rows.c[:, None] - window + i
    expected = step.hashes[rows.row[:, None], np.maximum(position + 1, 0)]
    error = _errors(read, expected, cls.salts[:, None, None])
    if (position < 0).any():
        residue = (read * np.arange(1, cls.row_bytes + 1)).sum(axis=-1)
        error = np.where(position < 0, residue, error)
    if cls.conv:
        error = error * (2 * i + 3)
    error = np.where(rows.c > 0, error.sum(axis=-1), 0)
    damage[rows.row, cls.units[:, None]] = error
    return read


def _carried(rows: _Rows, cls: UnitClass, damage: HostArray) -> HostArray:
    """int64 [units, rows, 1]: what a state's writes inherit."""
    return (rows.activation + damage[rows.row, cls.units[:, None]] * CARRY)[..., None]


def _write_temporal(
    pool: Pool,
    step: ForwardStep,
    rows: _Rows,
    cls: UnitClass,
    blocks: HostArray,
    window: HostArray,
    damage: HostArray,
) -> None:
    j = np.arange(blocks.shape[2])
    written = j < np.where(rows.spec, rows.n, 1)[:, None]
    tokens = np.where(rows.spec, rows.c + 1, rows.c + rows.n)[:, None] + j
    hashes = step.hashes[rows.row[:, None], np.where(written, tokens, 0)]
    keys = (hashes + _carried(rows, cls, damage)) ^ cls.salts[:, None, None]
    start = cls.start[:, None, None] + blocks[cls.table] * pool.layout.page_bytes
    written = np.broadcast_to(written, keys.shape)
    _store(pool, start[written], cls, pattern(keys[written], cls.row_bytes))


def _write_window(
    pool: Pool,
    step: ForwardStep,
    rows: _Rows,
    cls: UnitClass,
    blocks: HostArray,
    window: HostArray,
    damage: HostArray,
) -> None:
    w = pool.layout.window
    i = np.arange(pool.layout.width)
    written = i < np.where(rows.spec, w - 1 + rows.n, w)[:, None]
    position = (np.where(rows.spec, rows.c + 1, rows.c + rows.n) - w)[:, None] + i
    fresh = written & (position >= rows.c[:, None])
    hashes = step.hashes[rows.row[:, None], np.where(fresh, position + 1, 0)]
    keys = (hashes + _carried(rows, cls, damage)) ^ cls.salts[:, None, None]
    moved = written & ~fresh & (position >= 0)
    source = np.where(moved, position - (rows.c[:, None] - w), 0)
    old = window[:, np.arange(rows.row.size)[:, None], source] * moved[..., None].view(np.uint8)
    values = np.where(fresh[..., None], pattern(keys, cls.row_bytes), old)
    start = cls.start[:, None] + blocks[cls.table, :, 0] * pool.layout.page_bytes
    address = start[..., None] + i * cls.row_stride
    written = np.broadcast_to(written, keys.shape)
    _store(pool, address[written], cls, values[written])


class _Positions(NamedTuple):
    """(row, position) pairs of one attention group, row by row."""

    which: HostArray
    """Index into `_Rows`."""
    position: HostArray
    offset: HostArray
    """Bytes from block 0's data to the position's row."""


def _kv_addresses(pool: Pool, tables: BlockTables, rows: _Rows, cls: UnitClass) -> tuple[_Positions, _Positions]:
    """Where a group's rows read (`0..c`) and write (`c..c + n`)."""
    return (
        _positions(pool, tables, rows, cls, np.zeros_like(rows.c), rows.c),
        _positions(pool, tables, rows, cls, rows.c, rows.n),
    )


def _positions(
    pool: Pool, tables: BlockTables, rows: _Rows, cls: UnitClass, first: HostArray, count: HostArray
) -> _Positions:
    which = np.repeat(np.arange(rows.row.size), count)
    position = np.arange(which.size) - np.repeat(np.cumsum(count) - count - first, count)
    column = position // cls.block_size
    name, limit = f"gathered[{cls.group}]", pool.layout.num_blocks
    if (wrong := np.flatnonzero(column >= tables.max_blocks)).size:
        i = wrong[0]
        raise OutOfBounds(name, int(rows.row[which[i]]), int(column[i]), None, tables.max_blocks)
    block = tables.gathered[cls.group][rows.row[which], column].astype(np.int64)
    if (wrong := np.flatnonzero((block < 0) | (block >= limit))).size:
        i = wrong[0]
        raise OutOfBounds(name, int(rows.row[which[i]]), int(column[i]), int(block[i]), limit)
    offset = block * pool.layout.page_bytes + position % cls.block_size * cls.row_bytes
    return _Positions(which, position, offset)


def _read_kv(pool: Pool, step: ForwardStep, cls: UnitClass, rows: _Rows, read: _Positions, damage: HostArray) -> None:
    readers = np.flatnonzero(rows.c > 0)
    if readers.size == 0:
        return
    values = _load(pool, cls.start[:, None] + read.offset, cls)
    expected = step.hashes[rows.row[read.which], read.position + 1]
    error = _errors(values, expected, cls.salts[:, None]) * (2 * read.position + 3)
    starts = np.cumsum(rows.c[readers]) - rows.c[readers]
    damage[rows.row[readers], cls.units[:, None]] = np.add.reduceat(error, starts, axis=1)


def _write_kv(pool: Pool, step: ForwardStep, cls: UnitClass, rows: _Rows, written: _Positions) -> None:
    hashes = step.hashes[rows.row[written.which], written.position + 1]
    keys = (hashes + rows.activation[written.which]) ^ cls.salts[:, None]
    _store(pool, cls.start[:, None] + written.offset, cls, pattern(keys, cls.row_bytes))


def _errors(rows: HostArray, expected: HostArray, salts: HostArray) -> HostArray:
    """int64: 0 where the rows (uint8 [..., row_bytes]) are the patterns of the expected hashes."""
    keys = np.ascontiguousarray(rows[..., :8]).view("<i8")[..., 0]
    return (keys ^ salts) - expected + torn(rows, keys)


def _load(pool: Pool, address: HostArray, cls: UnitClass) -> HostArray:
    """Rows at byte offsets `address` of the pool: uint8 [*address.shape, row_bytes]."""
    found: HostArray = pool.array[address[..., None] + cls.byte_offsets]
    return found


def _store(pool: Pool, address: HostArray, cls: UnitClass, values: HostArray) -> None:
    where = address[..., None] + cls.byte_offsets
    pool.array[where] = values
    if pool.journal is not None:
        pool.journal.append((where, values))
