"""What block tables and lengths hold after every launch, so that whoever writes a wrong entry is blamed.

A gather is held to the table that it reads, row by row; what is staged for the tables themselves is the worker's
decision, and judged where it is used. All other launches leave them as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import BlockCounts, Gather, Indices, Operation, Writes


class WrongEntry(NamedTuple):
    """`array` is named as in `Tables`; meant: whether the launch was to write it; `request` has the row, if known."""

    array: str
    row: int
    column: int
    got: int
    wanted: int
    meant: bool
    request: str = ""


class Tables:
    """One rank's tables as its launches left them. Arrays are [rows, columns], lengths and counts too."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._by_slot = rank.tables.gathered is not rank.tables.persistent
        self._left: dict[str, HostArray] = {}
        self.accept()

    def accept(self) -> None:
        """A launch was refused half-way and has been reported already."""
        self._left = {name: array.copy() for name, array in self._held().items()}

    def after(self, operation: Operation) -> Iterator[WrongEntry]:
        """Compare with what an operation has left: one entry of every array that is wrong."""
        held = self._held()
        writes = self._written_by(operation)
        if isinstance(operation, Gather):
            yield from self._gathered(operation, held)
        for name, actual in held.items():
            left = self._left[name]
            if actual.tobytes() == left.tobytes():
                continue
            if not name.startswith(writes):
                row, column = map(int, np.argwhere(actual != left)[0])
                yield WrongEntry(name, row, column, int(actual[row, column]), int(left[row, column]), meant=False)
            self._left[name] = actual.copy()

    def _held(self) -> dict[str, HostArray]:
        rank, host = self._rank, self._rank.backend.to_host
        held = {f"block table {g}": host(table) for g, table in enumerate(rank.tables.persistent)}
        if self._by_slot:
            held |= {f"gathered block table {g}": host(table) for g, table in enumerate(rank.tables.gathered)}
        held["block counts"] = host(rank.tables.num_blocks)
        held["lengths"] = host(rank.seq_lens)[None]
        return held

    def _written_by(self, operation: Operation) -> tuple[str, ...]:
        """Beginnings of the names of arrays that an operation may write."""
        match operation:
            case Writes():
                return ("block table",)
            case BlockCounts():
                return ("block counts",)
            case Gather():
                return ("gathered", "lengths")
            case Indices() if not self._by_slot:
                return ("lengths",)
            case _:
                return ()

    def _gathered(self, operation: Gather, held: dict[str, HostArray]) -> Iterator[WrongEntry]:
        """Every row of the batch is the slot's own up to its count, every length what is computed and comes now."""
        batch = operation.batch
        computed = self._rank.backend.to_host(self._rank.slots.num_computed)
        for row, (request, slot) in enumerate(zip(batch.requests, batch.slots.tolist())):
            length = int(computed[slot] + batch.query_start_loc[row + 1] - batch.query_start_loc[row])
            got = int(held["lengths"][0, row])
            if got != length:
                yield WrongEntry("lengths", 0, row, got, length, True, request)
            for g in range(len(self._rank.layout.groups)):
                own = held[f"block table {g}"][slot, : held["block counts"][g, slot]]
                made = held[f"gathered block table {g}"][row, : own.size]
                if made.tobytes() != own.tobytes():
                    column = int(np.flatnonzero(made != own)[0])
                    entry = f"gathered block table {g}"
                    yield WrongEntry(entry, row, column, int(made[column]), int(own[column]), True, request)
