"""Judges one rank: after every launch its pool must equal the shadow, and every forward must read what it should.

Called by the run loop around each device operation, on the rank's own timeline. Effects are compared byte for byte over
the whole pool; meanings come from the tags that the forward checked on the device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stalerow.kernels.memory import POISON
from stalerow.simulator.oracle import bookkeeping, reads
from stalerow.simulator.oracle import copies as wrong
from stalerow.simulator.oracle.effect import StateCopy, apply_copy, postcopies, precopies
from stalerow.simulator.oracle.forward import Shadow
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.oracle.plan import Planner, PlanRow
from stalerow.simulator.oracle.violations import Marks, Violation
from stalerow.simulator.oracle.wording import stray_write
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.device import Operation

MAX_VIOLATIONS = 40


class RankJudge:
    """Shadow pool, ledger and checks of one rank."""

    def __init__(self, rank: Rank, planner: Planner, marks: Marks, found: list[Violation]) -> None:
        self.rank, self.planner, self.marks, self.found = rank, planner, marks, found
        self.layout = rank.layout
        self.ledger = Ledger(self.layout)
        self._shadow = Shadow(self.layout, rank.max_reqs, rank.max_blocks)
        self.shadow = self._shadow.pages
        self.fresh_attention: list[int] = []
        self._reported: set[tuple[Any, ...]] = set()
        self._digest = hashlib.blake2b(digest_size=16)
        self._changed_hands: list[int] = []
        self._rows_before = 0
        self.unconsumed: set[int] = set()
        self.admitted = 0

    def pages(self) -> np.ndarray:
        """The rank's pool on the host, uint8 [layers, num_blocks, page_bytes]."""
        return self.rank.pool.pages(self.rank.backend.to_host(self.rank.pool.array))

    def after(self, operation: Operation) -> None:
        """Judge an operation that has just run."""
        check = getattr(self, f"_after_{operation.kind}", None)
        if check is not None:
            check(operation)

    def accept(self) -> None:
        """Take the pool as it is: a launch was refused half-way and has been reported already."""
        self.shadow[:] = self.pages()

    def report(self, violation: Violation) -> None:
        violation = bookkeeping.after_overwriting(self, violation)
        key = violation.identity() + (violation.request, violation.layer, violation.group)
        if key not in self._reported and len(self.found) < MAX_VIOLATIONS:
            self._reported.add(key)
            self.found.append(violation)

    def poison(self, step: Any) -> list[int]:
        """Take a step's admissions on this rank's timeline; returns the recurrent blocks that changed hands."""
        taken = self.ledger.take_admissions(step)
        self.fresh_attention = taken.attention
        self.marks.add("block reused", taken.reused)
        self.marks.add("speculative block relocated", taken.relocated)
        self._changed_hands = taken.recurrent
        return taken.recurrent

    def _after_free(self, operation: Operation) -> None:
        self.ledger.take_frees(operation.about["taken"])

    def _after_admit(self, operation: Operation) -> None:
        step = operation.about["taken"]
        self.admitted = step.number
        for _, new, freed_at in operation.about["slots"]:
            self.marks.add("prefix hit", new.num_computed_tokens > 0)
            self.marks.add("resumption", new.resumed)
            reused = freed_at is not None and step.number - freed_at < self.rank.pipeline.pp
            self.marks.add("slot reused within P steps", reused)
        if self._changed_hands:
            self.shadow[:, self._changed_hands, :] = POISON
            self._compare_fill(operation)

    def _after_zero(self, operation: Operation) -> None:
        blocks = operation.about["blocks"]
        for violation in bookkeeping.early_fills(self, operation, blocks):
            self.report(violation)
        self.shadow[:, list(blocks), :] = 0
        self._compare_fill(operation)

    def _after_copy_blocks(self, operation: Operation) -> None:
        before = self.shadow.copy()
        for violation in bookkeeping.early_fills(self, operation, [t for _, t in operation.about["pairs"]]):
            self.report(violation)
        for source, target in operation.about["pairs"]:
            self.shadow[:, target] = before[:, source]
        self._compare_fill(operation)

    def _compare_fill(self, operation: Operation) -> None:
        actual = self.pages()
        if not np.array_equal(actual, self.shadow):
            self.report(stray_write(self, operation, actual))
            self.shadow[:] = actual

    def _rows(self, step: int, requests: Iterable[str]) -> list[PlanRow]:
        rows = self.planner.plans[step].rows
        return [rows[r] for r in requests if self.ledger.alive(r, rows[r].incarnation)]

    def _after_gather(self, operation: Operation) -> None:
        batch = operation.about["batch"]
        padding = batch.num_padded - batch.num_rows
        self.marks.add("padded rows", padding > 0)
        self.marks.add("dirty rows zeroed", padding > 0 and self._rows_before > batch.num_rows)
        self._rows_before = batch.num_rows

    def _after_precopy(self, operation: Operation) -> None:
        batch = operation.about["batch"]
        copies: list[StateCopy] = []
        for row in self._rows(batch.step, batch.requests):
            copies += precopies(row, self.layout, self.ledger)
        self.marks.add("running column moved", len({c.request for c in copies}))
        self._compare_copies(operation, batch.step, copies)

    def _after_dummy(self, operation: Operation) -> None:
        self._compare_fill(operation)

    def _after_post_update(self, operation: Operation) -> None:
        if "slots" in operation.about:
            for violation in bookkeeping.wrong_outcome(self, operation):
                self.report(violation)

    def _after_postprocess(self, operation: Operation) -> None:
        of, during = operation.about["of"], operation.step
        self.unconsumed.discard(of)
        requests = operation.about["rows"]
        rows = self._rows(of, requests)
        self.marks.add("deferred output masked", len(rows) < len(requests))
        if not self.rank.is_last:
            rows = [r for r in rows if r.needs_output]
        copies: list[StateCopy] = []
        for row in rows:
            copies += postcopies(row, self.layout, self.ledger)
        self._mark_postprocess(operation, copies, of, during)
        self._compare_copies(operation, of, copies)

    def _mark_postprocess(self, operation: Operation, copies: Sequence[StateCopy], of: int, during: int) -> None:
        crossed = {c.request for c in copies}
        self.marks.add("state saved at a boundary", len(crossed))
        self.marks.add("same-block shift", sum(c.source == c.target and c.bias > 0 for c in copies))
        if during != of and crossed and self.rank.gathered_step not in (None, of):
            self.marks.add("deferred postprocess over a re-gathered table")
        step = self.planner.plans[during].step
        leaving = {*step.finished, *step.preempted}
        if leaving & crossed:
            lists = [n.block_ids for n in step.new] + [c.new_block_ids or () for c in step.cached]
            given = {block for groups in lists for ids in groups for block in ids}
            self.marks.add("open window", sum(c.request in leaving and c.target in given for c in copies))

    def _compare_copies(self, operation: Operation, of: int, copies: Sequence[StateCopy]) -> None:
        for copy in copies:
            for block in (copy.source, copy.target):
                if not self.ledger.owns(copy.request, copy.entry.group, block):
                    self.report(wrong.unowned(self, operation, of, copy, block))
        before = self.shadow.copy()
        for copy in copies:
            apply_copy(self.layout, self.shadow, copy, before)
        actual = self.pages()
        if not np.array_equal(actual, self.shadow):
            for violation in wrong.wrong_copy(self, operation, of, copies, before, actual):
                self.report(bookkeeping.bound_to_the_dead(self, violation))
            self.shadow[:] = actual

    def _after_forward(self, operation: Operation) -> None:
        batch = operation.about["batch"]
        rank, host = self.rank, self.rank.backend.to_host
        plan = self.planner.plans[batch.step]
        rows = [plan.rows[r] for r in batch.requests]
        for violation in reads.wrong_slots(self, batch, rows):
            self.report(violation)
        for violation in reads.unzeroed(self, operation):
            self.report(violation)
        self.fresh_attention = []
        before = self.shadow.copy()
        arriving = np.array(host(rank.arriving))
        self._shadow.forward(self.ledger, rows, rank.hash_table(batch), arriving)
        actual = self.pages()
        damage = np.array(host(rank.damage))[: batch.num_rows]
        for violation in reads.wrong_reads(self, operation, rows, damage, before):
            self.report(violation)
        if not np.array_equal(actual, self.shadow):
            self.report(stray_write(self, operation, actual))
            self.shadow[:] = actual
        if rank.is_last:
            leaving = host(rank.leaving)[: batch.num_rows]
            for row, value in zip(rows, leaving):
                if value and row.num_sampled:
                    self.report(reads.diverged(self, operation, row))
        self._digest_pages(actual)
        self._digest.update(damage.tobytes())
        if not rank.is_last and batch.needs_output.any():
            self.unconsumed.add(batch.step)

    def final(self, hashed: Any) -> None:
        """What the prefix cache still offers at the end must be what it says."""
        for violation in reads.wrong_cache(self, hashed):
            self.report(violation)

    def _digest_pages(self, pages: np.ndarray) -> None:
        """All pages but the null block's: what wrong launches write there at once is in no defined order on a GPU."""
        self._digest.update(np.ascontiguousarray(pages[:, 1:]).tobytes())

    def digest(self) -> bytes:
        slots, host = self.rank.slots, self.rank.backend.to_host
        self._digest_pages(self.pages())
        for name in ("state_idx", "num_accepted", "num_computed", "total_len", "token_ids"):
            self._digest.update(np.ascontiguousarray(host(getattr(slots, name))).tobytes())
        return self._digest.digest()
