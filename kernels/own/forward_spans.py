"""The attention part of the stand-in forward for long blocks: whole blocks at a time instead of position by position.

Same results as `forward`'s own, byte for byte; `forward` takes it where blocks are long and a position is one aligned
64-bit word. A serving run reads thousands of positions per row and step, which is what this is for.
"""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import BlockTables, OutOfBounds, Pool
from stalerow.kernels.own.forward_classes import ForwardClasses, UnitClass

WORD = 8
LONG_BLOCK = 64
"""Tokens from which on a block is worth a slice of its own."""


def takes_spans(layout: Layout, classes: ForwardClasses) -> bool:
    """Whether every attention group has long blocks of one aligned word a position."""
    aligned = layout.base_offset % WORD == 0 and layout.page_bytes % WORD == 0
    return aligned and all(c.row_bytes == WORD and c.block_size >= LONG_BLOCK for c in classes.attention)


class KvSpans:
    """One attention group's rows: `c` tokens read and `n` written by each, int64 [rows]; `row` is the batch row."""

    def __init__(
        self, pool: Pool, tables: BlockTables, cls: UnitClass, row: HostArray, c: HostArray, n: HostArray
    ) -> None:
        layout = pool.layout
        self._pool = pool
        self._cls, self._c, self._n = cls, c.tolist(), n.tolist()
        words = pool.array[layout.base_offset :].view(np.int64)
        self._pages = words.reshape(layout.layers, layout.num_blocks, layout.page_bytes // WORD)
        table = tables.gathered[cls.group]
        self._row = row.tolist()
        self._blocks = [
            self._checked(table, layout, tables.max_blocks, r, -(-(c_ + n_) // cls.block_size))
            for r, c_, n_ in zip(self._row, self._c, self._n)
        ]

    def _checked(self, table: HostArray, layout: Layout, max_blocks: int, row: int, count: int) -> HostArray:
        name = f"gathered[{self._cls.group}]"
        blocks: HostArray = table[row, :count]
        bad = np.flatnonzero((blocks < 0) | (blocks >= layout.num_blocks))
        if bad.size:
            column = int(bad[0])
            raise OutOfBounds(name, row, column, int(blocks[column]), layout.num_blocks)
        if count > max_blocks:
            raise OutOfBounds(name, row, max_blocks, None, max_blocks)
        return blocks

    def read(self, hashes: HostArray, damage: HostArray) -> None:
        """Check positions 0..c of every row: `damage[row, unit]` sums `((key ^ salt) - hash) * (2p + 3)`."""
        size = self._cls.block_size
        for row, c, blocks in zip(self._row, self._c, self._blocks):
            if c == 0:
                continue
            expected = hashes[row, 1 : c + 1]
            for layer, (unit, salt) in enumerate(zip(self._cls.units, self._cls.salts)):
                keys = self._pages[layer, blocks[: -(-c // size)], :size].reshape(-1)[:c] ^ salt
                if np.array_equal(keys, expected):
                    damage[row, unit] = 0
                else:
                    damage[row, unit] = ((keys - expected) * (2 * np.arange(c) + 3)).sum()

    def write(self, hashes: HostArray, activation: HostArray) -> None:
        """Write positions c..c + n of every row: `(hash + activation) ^ salt`, `activation` int64 [rows]."""
        size, journal, layout = self._cls.block_size, self._pool.journal, self._pool.layout
        for layer, salt in enumerate(self._cls.salts):
            for row, c, n, blocks, carried in zip(self._row, self._c, self._n, self._blocks, activation):
                keys = (hashes[row, c + 1 : c + n + 1] + carried) ^ salt
                for column in range(c // size, -(-(c + n) // size)):
                    first, last = max(column * size, c), min((column + 1) * size, c + n)
                    page = self._pages[layer, blocks[column]]
                    page[first - column * size : last - column * size] = keys[first - c : last - c]
                    if journal is not None:
                        start = layout.page_start(layer, int(blocks[column])) + (first - column * size) * WORD
                        where = slice(start, start + (last - first) * WORD)
                        journal.append((where, keys[first - c : last - c].view(np.uint8)))
