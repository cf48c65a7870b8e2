"""What one schedule's ranks do on their devices, and what each operation is meant to do: rows of plain integers.

Frame `f` of a rank is everything its host enqueued for step `f + 1`. A kind of operation occurs once in a frame at
most, so a tape holds one table per kind and the order of kinds; `COLUMNS` names the tables' columns after `frame`.
Blocks, slots, batch rows and requests are numbered within the schedule; `pack` moves them into a universe.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stalerow.simulator.oracle.violations import Violation

COLUMNS: dict[str, tuple[str, ...]] = {
    "writes": ("group", "slot", "column", "block"),
    "counts": ("group", "slot", "count"),
    "seeds": ("slot", "state_idx", "num_accepted", "num_computed", "total_len", "request"),
    "poisoned": ("block",),
    "zeroed": ("block",),
    "pages": ("source", "target"),
    "rows": (
        "row",
        "slot",
        "query_len",
        "is_spec",
        "request",
        "good",
        "num_computed",
        "state_idx",
        "num_accepted",
        "total_len",
        "last_token",
    ),
    "padding": ("row",),
    "sampled": ("row", "num_sampled", "num_rejected", "tokens"),
    "outcomes": ("row", "slot", "query_len", "num_computed", "total_len", "last_token"),
    "neutral": ("slot",),
    "owned": ("group", "request", "column", "block"),
    "premoves": ("group_index", "conv_source", "temporal_source", "target", "bias"),
    "postmoves": ("group_index", "conv_source", "temporal_source", "target", "bias"),
    "fresh": ("block",),
    "cached": ("group_index", "request", "block", "num_tokens"),
}
"""rows: the batch; `good` is the number of a row's tokens that are no rejected drafts, and `num_computed` to
`last_token` are what the slot must hold when the forward starts, `UNCHECKED` where the request does not say. sampled:
the last rank only, K + 1 tokens a row. outcomes: rows whose output is taken, with what the slot must hold then. owned:
blocks that requests get. fresh: attention blocks that must be zero. cached: what the prefix cache offers at the end (in
the last frame)."""


@dataclass(slots=True)
class UniverseTape:
    """One rank of one schedule, while it is written: rows by kind of operation, frame first, and the order of kinds."""

    tables: dict[str, list[tuple[int, ...]]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    orders: dict[int, list[str]] = field(default_factory=dict)

    def arrays(self) -> dict[str, np.ndarray]:
        """The same as int32 [n, 1 + columns], n >= 1: kinds that never occur are left out."""
        return {name: np.array(rows, dtype=np.int32) for name, rows in self.tables.items() if rows}

    def ordered(self, frames: int) -> list[tuple[str, ...]]:
        """The kinds of every frame in stream order; equal ones are one object, so that tapes travel light."""
        known: dict[tuple[str, ...], tuple[str, ...]] = {}
        orders = (tuple(self.orders.get(frame, ())) for frame in range(frames))
        return [known.setdefault(order, order) for order in orders]


@dataclass(slots=True)
class Tape:
    """A schedule's host side, run. `suspects`: violations that need no kernel to show.

    ranks: `UniverseTape.arrays` of each. orders: by rank and frame, the kinds of operation on its main stream. sizes:
    blocks, slots (and batch rows), columns of a table row and positions of a token row that its ranks allocate. tokens
    and hashes: by request, as far as the run came. zero_padding: as in `rank.policy.RankPolicy`.
    """

    ranks: list[dict[str, np.ndarray]]
    orders: list[list[tuple[str, ...]]]
    frames: int
    sizes: dict[str, int]
    tokens: list[np.ndarray]
    hashes: list[np.ndarray]
    suspects: list[Violation]
    marks: dict[str, int]
    zero_padding: bool
