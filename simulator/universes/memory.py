"""What the ranks of a pack have in memory beside the ordinary pool and tables, and what they hand each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from stalerow.kernels.base.device import Array, Backend
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import NULL_POISON, BlockTables, Pool, addresses
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.universes.arrays import Arrays
from stalerow.simulator.universes.pack import Pack


class Wire:
    """What ranks hand each other: activations down the pipeline, sampled tokens from the last rank to the others."""

    def __init__(self, pack: Pack, arrays: Arrays, backend: Backend, num_ranks: int) -> None:
        rows = pack.count * pack.sizes["slots"]
        self.activations = backend.alloc((num_ranks, pack.frames, rows), "int64")
        width = 2 + pack.layout.num_drafts + 1
        self.sampled = backend.alloc((pack.frames, width, rows), "int64")
        table = pack.ranks[-1]["sampled"]
        frame = arrays.upload(np.repeat(np.arange(pack.frames), np.diff(table.starts)))
        values = arrays.upload(table.values)
        for i in range(len(values) - 2):
            self.sampled[:, i][frame, values[1]] = values[2 + i]
        self.received = self.sampled if num_ranks == 1 else backend.alloc((pack.frames, width, rows), "int64")
        self.side = arrays.stream()
        self.left: dict[tuple[int, int], Any] = {}
        self.broadcast: dict[int, Any] = {}


def cast_like(values: Array, like: Array) -> Array:
    """`values` in the dtype of `like`."""
    return values.astype(like.dtype) if isinstance(values, np.ndarray) else values.to(like.dtype)


def common_pool(layout: Layout, size: int, kernels: KernelSet) -> Pool:
    """A pool whose universes of `size` blocks each have a null block of their own."""
    pool = Pool(layout, kernels.backend)
    null = np.arange(0, layout.num_blocks, size, dtype=np.int32)
    kernels.ops.fill_blocks(pool, kernels.backend.from_host(null), len(null), NULL_POISON)
    return pool


def null_tables(
    layout: Layout, null: np.ndarray, columns: int, backend: Backend, num_rows: int | None = None
) -> BlockTables:
    """Block tables with a slot per element of `null` (int32), every column naming that null block.

    num_rows: batch rows of the gathered tables, where there are more or fewer of them than slots.
    """
    tables = BlockTables(layout, len(null), columns, backend)
    host = np.ascontiguousarray(np.broadcast_to(null[:, None], (len(null), columns)))
    for table in (*tables.persistent, *tables.gathered):
        backend.write(table, host)
    if num_rows is not None:
        tables.gathered = [backend.alloc((num_rows, columns), "int32") for _ in tables.gathered]
        tables.gathered_ptrs = addresses(tables.gathered, backend, "gathered block_tables")
    return tables
