"""What every number that a rank keeps by slot must be after every launch, so that whoever writes a wrong one is blamed.

The numbers are the requests' own, from the plan; which slot a request has is said by the operations that fill it. A
launch must write what follows for a request whose numbers were right before, and leave all others as they were. What
is admitted is the worker's decision, and judged where it is used: the launch that seeds is held to what it was handed.
Slots that nobody holds may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stalerow.simulator.oracle.expected import Held
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.rank.batch import Batch
from stalerow.simulator.rank.operations import (
    Admit,
    Advance,
    CommitRows,
    FillAccepted,
    Free,
    Operation,
    Postprocess,
    PostUpdate,
    Preprocess,
    ScatterAccepted,
    Seed,
    Seeded,
    Taken,
)
from stalerow.simulator.truth.plan import Planner, PlanRow


class WrongNumber(NamedTuple):
    """`name` is the array's. meant: whether the launch was to write this number; else it has changed a foreign one."""

    slot: int
    request: str
    name: str
    got: int
    wanted: int
    meant: bool


class Slots:
    """One rank's numbers as they should be. `told`: (request, array) that hold a wrong number which was reported."""

    def __init__(self, held: Held, planner: Planner, ledger: Ledger) -> None:
        self._planner, self._ledger = planner, ledger
        self._wanted = Held(*(array.copy() for array in held))
        self._arrays = self._wanted._asdict()
        self._holders: dict[int, tuple[str, int]] = {}
        self._meant: set[tuple[int, str]] = set()
        self._bytes: dict[str, bytes] = {}
        self.told: set[tuple[str, str]] = set()

    def accept(self, held: Held) -> None:
        """A launch was refused half-way and has been reported already."""
        for wanted, actual in zip(self._wanted, held):
            wanted[...] = actual
        self._bytes.clear()

    def after(
        self, operation: Operation, held: Held, rows: Sequence[PlanRow], seeded: Sequence[Seeded] = ()
    ) -> Iterator[WrongNumber]:
        """Compare with what an operation has left; `rows` are those of its batch or output that it works for.

        seeded: what the last launch that seeds was handed.
        """
        self._meant.clear()
        match operation:
            case Free() | Admit():
                self._holders = {s: holder for s, holder in self._holders.items() if self._ledger.alive(*holder)}
            case Seed():
                for slot, new, _ in operation.seats:
                    self._holders[slot] = new.request, self._ledger.incarnation[new.request]
                    self._given(slot, held)
                for (slot, new, _), handed in zip(operation.seats, seeded):
                    if handed.slot == slot:
                        self._set(slot, **{name: getattr(handed, name) for name in handed._fields[1:]})
                        known = new.prefill_token_ids
                        if handed.total_len == len(known):
                            self._wanted.token_ids[slot, : len(known)] = known
                            self._meant.add((slot, "token_ids"))
            case CommitRows():
                placed = _placed(operation.batch, rows)
                self._holders = {slot: (row.request, row.incarnation) for slot, row in placed}
                for slot, _ in placed:
                    self._given(slot, held)
            case Preprocess():
                for slot, row in _placed(operation.batch, rows):
                    self._preprocessed(slot, row, held)
            case Advance():
                for slot, row in _placed(operation.batch, rows):
                    if self._held(slot, held, num_computed=row.start):
                        self._set(slot, num_computed=row.start + row.num_tokens)
            case FillAccepted():
                for slot, _ in _placed(operation.batch, rows):
                    self._set(slot, num_accepted=1)
            case PostUpdate():
                for slot, row in _placed(operation.output, rows):
                    self._counted(slot, row)
            case ScatterAccepted():
                for slot, row in _placed(operation.output, rows):
                    self._set(slot, num_accepted=max(row.num_sampled, 1))
            case Postprocess():
                for slot, row in _placed(operation.output, rows):
                    accepted = max(row.num_sampled, 1)
                    if self._held(slot, held, num_accepted=accepted, state_idx=row.column):
                        self._set(slot, num_accepted=row.accepted_after)
            case _:
                pass
        yield from self._compared(held)

    def _given(self, slot: int, held: Held) -> None:
        """Take a slot's numbers as they are."""
        for wanted, actual in zip(self._wanted, held):
            wanted[slot] = actual[slot]
        self._bytes.clear()

    def _held(self, slot: int, held: Held, **numbers: int) -> bool:
        """Whether a slot held these numbers before the launch; if not, what it holds now is taken as it is."""
        right = all(self._arrays[name][slot] == number for name, number in numbers.items())
        if not right:
            self._given(slot, held)
        return right

    def _set(self, slot: int, **numbers: int) -> None:
        for name, number in numbers.items():
            self._arrays[name][slot] = number
            self._bytes.pop(name, None)
            self._meant.add((slot, name))

    def _preprocessed(self, slot: int, row: PlanRow, held: Held) -> None:
        """The running column, and what precopy is asked to do: a copy where the column moves, none elsewhere."""
        before = {"state_idx": row.column_before, "num_accepted": row.accepted_before, "num_computed": row.start}
        if not self._held(slot, held, **before):
            return
        self._set(slot, state_idx=row.column, num_accepted=row.accepted_in_forward)
        source, offset = int(held.src_col[slot]), int(held.src_off[slot])
        if row.column_before not in (-1, row.column):
            self._set(slot, src_col=row.column_before, src_off=row.accepted_before - 1)
        else:
            stays = source < 0 or source == row.column
            self._set(slot, src_col=source if stays else row.column_before, src_off=offset)

    def _counted(self, slot: int, row: PlanRow) -> None:
        first = row.start + row.num_tokens - row.num_drafts
        known = first + row.num_sampled
        self._set(slot, num_computed=row.end, num_accepted=max(row.num_sampled, 1))
        if row.num_sampled:
            tokens = self._planner.streams[row.request].slice(first, known)
            self._set(slot, total_len=known, last_token=tokens[-1])
            self._wanted.token_ids[slot, first:known] = tokens
            self._bytes.pop("token_ids", None)
            self._meant.add((slot, "token_ids"))

    def _compared(self, held: Held) -> Iterator[WrongNumber]:
        for slot, name in self._meant:
            if slot in self._holders:
                self.told.discard((self._holders[slot][0], name))
        for name, actual, wanted in zip(Held._fields, held, self._wanted):
            meant = self._bytes.get(name)
            if meant is None:
                meant = self._bytes[name] = wanted.tobytes()
            if actual.tobytes() == meant:
                continue
            self._bytes.pop(name)
            for slot in np.flatnonzero((actual != wanted).reshape(len(actual), -1).any(axis=1)).tolist():
                if slot in self._holders:
                    request, _ = self._holders[slot]
                    place = int(np.flatnonzero(np.atleast_1d(actual[slot] != wanted[slot]))[0])
                    got, right = (int(np.atleast_1d(array[slot])[place]) for array in (actual, wanted))
                    self.told.add((request, name))
                    yield WrongNumber(slot, request, name, got, right, (slot, name) in self._meant)
                wanted[slot] = actual[slot]


def _placed(of: Batch | Taken, rows: Sequence[PlanRow]) -> list[tuple[int, PlanRow]]:
    """The rows with their slots."""
    places = dict(zip(of.requests, of.slots.tolist()))
    return [(places[row.request], row) for row in rows]
