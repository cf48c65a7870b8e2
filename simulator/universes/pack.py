"""Tapes side by side: one table per rank and kind of operation, ordered by frame, in the numbers of the common pool."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from stalerow.kernels.base.layout import Layout
from stalerow.simulator.errors import UsageError
from stalerow.simulator.universes.tape import COLUMNS, Tape

BLOCKS = ("block", "source", "target", "conv_source", "temporal_source")
SLOTS = ("slot", "row")
"""Columns that a universe moves: `request` moves too."""


@dataclass(slots=True)
class Table:
    """`values`: int64 [columns, n], universe first, then `tape.COLUMNS`; frame f's start at `starts[f]`."""

    values: np.ndarray
    starts: list[int]

    @property
    def longest(self) -> int:
        """Rows of the frame that has most."""
        return int(np.diff(self.starts).max(initial=0))


@dataclass(slots=True)
class Pack:
    """N tapes of one layout. `sizes` are the largest of any tape, `requests` likewise.

    own_blocks, own_slots, ends: int32 [N], what each universe uses and its frames. tokens: int32 [N * requests,
    positions]; hashes: int64 [N * requests, positions + 1]. ran: bool [frames, N], where a universe has a forward.
    orders: by rank and frame, the kinds of operation that any universe has, in an order that is every universe's.
    """

    layout: Layout
    sizes: dict[str, int]
    requests: int
    frames: int
    own_blocks: np.ndarray
    own_slots: np.ndarray
    ends: np.ndarray
    tokens: np.ndarray
    hashes: np.ndarray
    ranks: list[dict[str, Table]]
    orders: list[list[tuple[str, ...]]]
    ran: np.ndarray
    zero_padding: bool

    @property
    def count(self) -> int:
        return len(self.ends)


def pack(layout: Layout, tapes: Sequence[Tape]) -> Pack:
    """Merge tapes of one kernel set whose layouts differ in `num_blocks` only.

    Raises `UsageError` where their workers launch the same things in different orders.
    """
    sizes = {name: max(t.sizes[name] for t in tapes) for name in tapes[0].sizes}
    requests = max(len(t.tokens) for t in tapes)
    frames = max(t.frames for t in tapes)
    length = sizes["positions"] + 1
    tokens = np.zeros((len(tapes), requests, length - 1), dtype=np.int32)
    hashes = np.zeros((len(tapes), requests, length), dtype=np.int64)
    for u, tape in enumerate(tapes):
        for q, (ids, prefixes) in enumerate(zip(tape.tokens, tape.hashes)):
            tokens[u, q, : len(ids)] = ids[: length - 1]
            hashes[u, q, : len(prefixes)] = prefixes[:length]
    ranks = [
        {name: _table(name, [t.ranks[r].get(name) for t in tapes], frames, sizes, requests) for name in COLUMNS}
        for r in range(len(tapes[0].ranks))
    ]
    rows = ranks[0]["rows"]
    ran = np.zeros((frames, len(tapes)), dtype=bool)
    ran[np.repeat(np.arange(frames), np.diff(rows.starts)), rows.values[0]] = True
    return Pack(
        layout=layout,
        sizes=sizes,
        requests=requests,
        frames=frames,
        own_blocks=np.array([t.sizes["blocks"] for t in tapes], dtype=np.int32),
        own_slots=np.array([t.sizes["slots"] for t in tapes], dtype=np.int32),
        ends=np.array([t.frames for t in tapes], dtype=np.int32),
        tokens=tokens.reshape(-1, length - 1),
        hashes=hashes.reshape(-1, length),
        ranks=ranks,
        orders=[_orders([t.orders[r] for t in tapes], frames) for r in range(len(ranks))],
        ran=ran,
        zero_padding=tapes[0].zero_padding,
    )


def _orders(universes: Sequence[Sequence[tuple[str, ...]]], frames: int) -> list[tuple[str, ...]]:
    """One rank's order of every frame."""
    merged = functools.cache(_merged)
    return [merged(frozenset(orders[f] for orders in universes if f < len(orders))) for f in range(frames)]


def _merged(orders: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """An order of all kinds that each of the given orders follows."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for order in sorted(orders):
        for i, kind in enumerate(order):
            sorter.add(kind, *order[max(i - 1, 0) : i])
    try:
        return tuple(sorter.static_order())
    except CycleError:
        raise UsageError(f"many universes need workers that launch in one order, not {sorted(orders)}") from None


def _table(name: str, tables: Sequence[np.ndarray | None], frames: int, sizes: dict[str, int], requests: int) -> Table:
    there = [(u, table) for u, table in enumerate(tables) if table is not None]
    if not there:
        return Table(np.zeros((1 + len(COLUMNS[name]), 0), dtype=np.int64), [0] * (frames + 1))
    values = np.concatenate([table for _, table in there]).astype(np.int64)
    universe = np.repeat([u for u, _ in there], [len(table) for _, table in there])
    order = np.argsort(values[:, 0], kind="stable")
    frame, universe = values[order, 0], universe[order]
    values = values[order, 1:].T
    for column, field in enumerate(COLUMNS[name]):
        if field in BLOCKS:
            values[column] += universe * sizes["blocks"]
        elif field in SLOTS:
            values[column] += universe * sizes["slots"]
        elif field == "request":
            values[column] += universe * requests
    starts = np.searchsorted(frame, np.arange(frames + 1)).tolist()
    return Table(np.ascontiguousarray(np.vstack([universe[None], values])), starts)
