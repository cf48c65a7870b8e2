"""Judges one rank: after every launch its pool must equal the shadow, and every forward must read what it should.

Effects are compared byte for byte over the whole pool; meanings come from the tags that the forward checked on the
device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from stalerow.kernels.base.fingerprint import PagesFingerprint, coefficients, values_fingerprint
from stalerow.kernels.own.forward import forward
from stalerow.simulator.oracle.effect import ColumnCopy, apply_copy
from stalerow.simulator.oracle.expected import after_output, held
from stalerow.simulator.oracle.explain import bookkeeping, reads, slots
from stalerow.simulator.oracle.explain import copies as wrong
from stalerow.simulator.oracle.explain.evidence import Evidence, evidence
from stalerow.simulator.oracle.explain.wording import stray_write
from stalerow.simulator.oracle.shadow import Ran, Shadow
from stalerow.simulator.oracle.slots import Slots
from stalerow.simulator.oracle.tables import Tables
from stalerow.simulator.oracle.violations import Marks, Violation
from stalerow.simulator.oracle.watch import Watch
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import (
    Advance,
    CommitRows,
    Copying,
    FillAccepted,
    Forward,
    Indices,
    Operation,
    Postprocess,
    PostUpdate,
    Preprocess,
    ScatterAccepted,
)
from stalerow.simulator.truth.plan import Planner, PlanRow

DIGESTED = ("state_idx", "num_accepted", "num_computed", "total_len", "token_ids")
"""The per-slot arrays that a run's digest covers at its end."""


class RankJudge(Watch):
    """Compares every intention with the rank's memory at once, on the host."""

    def __init__(self, rank: Rank, planner: Planner, marks: Marks, found: list[Violation]) -> None:
        super().__init__(rank, planner, marks, found)
        self._shadow = Shadow(self.layout, rank.max_reqs, rank.max_blocks)
        self.shadow = self._shadow.pages
        self._slots = Slots(held(rank), planner, self.ledger)
        self._tables = Tables(rank)
        self._viewed = held(rank) if rank.backend.on_host else None
        self._repeats = rank.ops.forward is forward
        self._prints = PagesFingerprint(self.layout)
        self._changed = set(range(self.layout.num_blocks))
        self._misplaced: set[int] = set()
        self._by_words = self.layout.page_bytes % 8 == 0 and self.layout.base_offset % 8 == 0
        self._digest = hashlib.blake2b(digest_size=16)

    def pages(self) -> np.ndarray:
        """The rank's pool on the host, uint8 [layers, num_blocks, page_bytes]."""
        return self.rank.pool.pages(self.rank.backend.to_host(self.rank.pool.array))

    def _evidence(self) -> Evidence:
        return evidence(self.rank, self.planner, self.ledger, self.shadow)

    def accept(self) -> None:
        self.rank.pool.journal = None
        self._take(self.pages())
        self._slots.accept(held(self.rank))
        self._tables.accept()

    def before(self, operation: Operation) -> None:
        if isinstance(operation, Forward) and self._repeats and self._as_meant(self.pages()):
            self.rank.pool.journal = []

    def after(self, operation: Operation) -> None:
        super().after(operation)
        rows = self._worked_for(operation)
        for number in self._slots.after(operation, self._viewed or held(self.rank), rows, self.rank.seeded):
            # An output in a slot that another request has taken is one violation, told by `counted`.
            if not (isinstance(operation, PostUpdate) and number.slot in self._misplaced):
                self.report(slots.wrong_number(self.rank.index, operation, number))
        for entry in self._tables.after(operation):
            self.report(slots.wrong_entry(self.rank.index, operation, entry))
        if isinstance(operation, Indices):
            for violation in slots.wrong_indices(self.rank, self.ledger, self._evidence, operation, rows):
                self.report(violation)

    def _worked_for(self, operation: Operation) -> list[PlanRow]:
        """The rows of the operation's batch or output, without those of requests that the rank has no more."""
        match operation:
            case ScatterAccepted():
                return self._rows(operation.output.of, operation.output.requests)
            case PostUpdate() | Postprocess():
                return self.taken(operation.output)
            case CommitRows() | Preprocess() | Advance() | FillAccepted() | Indices():
                return self._rows(operation.step, operation.batch.requests)
            case _:
                return []

    def filled(self, operation: Operation, blocks: Sequence[int], byte: int) -> None:
        self.shadow[:, list(blocks), :] = byte
        self._changed.update(blocks)
        self.untouched(operation)

    def copied(self, operation: Operation, pairs: Sequence[tuple[int, int]]) -> None:
        before = self.shadow.copy()
        for source, target in pairs:
            self.shadow[:, target] = before[:, source]
            self._changed.add(target)
        self.untouched(operation)

    def untouched(self, operation: Operation) -> None:
        actual = self.pages()
        if not self._as_meant(actual):
            self.report(stray_write(self._evidence(), operation, actual))
            self._take(actual)

    def _as_meant(self, actual: np.ndarray) -> bool:
        """Whether the rank's pages are the shadow's; by words, of which there are fewer than bytes."""
        if self._by_words:
            return bool((actual.view(np.uint64) == self.shadow.view(np.uint64)).all())
        return bool((actual == self.shadow).all())

    def _take(self, actual: np.ndarray) -> None:
        """What was wrong has been reported: go on from the pages as they are."""
        self.shadow[:] = actual
        self._changed.update(range(self.layout.num_blocks))

    def counted(self, operation: PostUpdate) -> None:
        outcomes = list(after_output(self.planner, self.ledger, operation.output))
        self._misplaced = {outcome.slot for outcome in outcomes if outcome.taken_by is not None}
        for violation in bookkeeping.misplaced_output(self.rank.index, operation, outcomes):
            self.report(violation)

    def moved(self, operation: Copying, moves: Sequence[ColumnCopy]) -> None:
        copies = [copy for move in moves for copy in move.copies(self.layout, self.ledger)]
        for copy in copies:
            for block in (copy.source, copy.target):
                if not self.ledger.owns(copy.request, copy.entry.group, block):
                    self.report(wrong.unowned(self._evidence(), operation, copy, block))
        before = self.shadow.copy() if copies else self.shadow
        for copy in copies:
            apply_copy(self.layout, self.shadow, copy, before)
            self._changed.add(copy.target)
        actual = self.pages()
        if not self._as_meant(actual):
            found = self._evidence()
            for violation in wrong.wrong_copy(found, operation, copies, before, actual):
                self.report(bookkeeping.bound_to_the_dead(found, violation))
            self._take(actual)

    def computed(self, operation: Forward, rows: Sequence[PlanRow]) -> None:
        rank, batch, host = self.rank, operation.batch, self.rank.backend.to_host
        for violation in slots.wrong_slots(rank.index, held(rank), self.planner, batch, rows, self._slots.told):
            self.report(violation)
        if self.fresh_attention and self.shadow[:, self.fresh_attention].any():
            for violation in reads.unzeroed(self._evidence(), operation, self.fresh_attention):
                self.report(violation)
        stored, rank.pool.journal = rank.pool.journal, None
        damage = np.array(host(rank.damage))[: batch.num_rows]
        ran = None
        if stored is not None and rank.forwarded is not None:
            ran = Ran(rank.forwarded, rank.tables, rank.slots, stored)
        before = self.shadow.copy() if damage.any() else self.shadow
        hashes = self.planner.hash_table(batch.step, batch.rows, rank.span + 1)
        self._shadow.forward(self.ledger, rows, hashes, np.array(host(rank.arriving)), ran)
        self._changed |= self._shadow.written
        actual = self.pages()
        if damage.any():
            for violation in reads.wrong_reads(self._evidence(), operation, rows, damage, before):
                self.report(violation)
        if not self._as_meant(actual):
            self.report(stray_write(self._evidence(), operation, actual))
            self._take(actual)
        if rank.is_last:
            leaving = host(rank.leaving)[: batch.num_rows]
            for row, value in zip(rows, leaving):
                if value and row.num_sampled:
                    self.report(reads.diverged(rank.index, operation, row))
        self._note(self._fingerprint(), damage_fingerprint(damage))

    def final(self, hashed: Any) -> None:
        """What the prefix cache still offers at the end must be what it says."""
        for violation in reads.wrong_cache(self._evidence(), self.pages(), self.offered(hashed)):
            self.report(violation)

    def _fingerprint(self) -> int:
        """Of the rank's pages, which are the shadow's after every launch."""
        found = self._prints.of(self.shadow, self._changed)
        self._changed.clear()
        return found

    def _note(self, *values: int) -> None:
        self._digest.update(np.array(values, dtype="<i8").tobytes())

    def digest(self) -> bytes:
        slots, host = self.rank.slots, self.rank.backend.to_host
        values = (values_fingerprint(host(getattr(slots, name)), i) for i, name in enumerate(DIGESTED))
        self._note(self._fingerprint(), *values)
        return self._digest.digest()


def damage_fingerprint(damage: np.ndarray) -> int:
    """Of a forward's damage, int64 [rows, units]."""
    if not damage.any():
        return 0
    return int((damage * coefficients(1, *damage.shape)[0]).sum())
