"""Watches one rank: what each device operation was meant to do, in the requests' own terms.

Called by the run loop around each operation, on the rank's own timeline. Keeps the ledger, counts marks, and turns an
operation into intentions (pages filled and copied, states moved, rows computed, outcomes counted). Who watches decides
what to do with an intention: `judge.RankJudge` compares it with the memory at once, a recorder writes it down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, assert_never

from stalerow.kernels.base.memory import POISON
from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.oracle.effect import ColumnCopy, postcopy, precopy
from stalerow.simulator.oracle.explain import bookkeeping
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.oracle.violations import Marks, Violation
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.batch import Batch
from stalerow.simulator.rank.operations import (
    Admit,
    Advance,
    BlockCounts,
    Broadcast,
    CommitRows,
    CopyBlocks,
    Copying,
    Dummy,
    FillAccepted,
    Forward,
    Free,
    Gather,
    Indices,
    Operation,
    Postprocess,
    PostUpdate,
    Precopy,
    Preprocess,
    Sample,
    ScatterAccepted,
    Seed,
    Taken,
    Writes,
    Zero,
)
from stalerow.simulator.truth.plan import Planner, PlanRow

MAX_VIOLATIONS = 40


class Watch:
    """Ledger, marks and intentions of one rank."""

    def __init__(self, rank: Rank, planner: Planner, marks: Marks, found: list[Violation]) -> None:
        self.rank, self.planner, self.marks, self.found = rank, planner, marks, found
        self.layout = rank.layout
        self.ledger = Ledger(self.layout)
        self.fresh_attention: list[int] = []
        self._reported: set[tuple[Any, ...]] = set()
        self.handed_over: list[int] = []
        self._rows_before = 0
        self.unconsumed: set[int] = set()
        self.admitted = 0

    def filled(self, operation: Operation, blocks: Sequence[int], byte: int) -> None:
        """Whole pages were to become `byte`."""
        raise NotImplementedError

    def copied(self, operation: Operation, pairs: Sequence[tuple[int, int]]) -> None:
        """Whole pages were to be copied, (source, target), every source read before any target is written."""
        raise NotImplementedError

    def moved(self, operation: Copying, moves: Sequence[ColumnCopy]) -> None:
        """States of the requests of the operation's batch were to move between columns."""
        raise NotImplementedError

    def computed(self, operation: Forward, rows: Sequence[PlanRow]) -> None:
        """A forward ran over its batch."""
        raise NotImplementedError

    def counted(self, operation: PostUpdate) -> None:
        """An output's counts were taken."""
        raise NotImplementedError

    def untouched(self, operation: Operation) -> None:
        """An operation ran that was to change no page."""
        raise NotImplementedError

    def accept(self) -> None:
        """A launch was refused half-way and has been reported already."""
        raise NotImplementedError

    def final(self, hashed: Any) -> None:
        """The run is over; `hashed` is what the prefix cache still offers (`Step.hashed`)."""
        raise NotImplementedError

    def digest(self) -> bytes:
        """16 bytes over the rank's whole memory after every forward and at the end."""
        raise NotImplementedError

    def offered(self, hashed: Mapping[int, CachedBlock]) -> Iterator[tuple[int, CachedBlock]]:
        """Of what the prefix cache offers at the end, the recurrent states that this rank must have by then."""
        pending = {
            (row.request, row.boundary.target)
            for number in self.unconsumed
            for row in self.planner.plans[number].rows.values()
            if row.boundary is not None
        }
        for block, cached in sorted(hashed.items()):
            group = self.layout.groups[cached.group]
            if group.kind != "recurrent" or cached.num_tokens % group.block_size:
                continue
            if (cached.request, cached.num_tokens // group.block_size - 1) not in pending:
                yield block, cached

    def before(self, operation: Operation) -> None:
        """An operation is about to run."""

    def after(self, operation: Operation) -> None:
        """Look at an operation that has just run. No kind goes unjudged: mypy checks that the match is exhaustive."""
        match operation:
            case Free():
                self.ledger.take_frees(operation.taken)
                self.untouched(operation)
            case Admit():
                self._admitted(operation)
            case Zero():
                self._early(operation, operation.blocks)
                self.filled(operation, operation.blocks, 0)
            case CopyBlocks():
                self._early(operation, [target for _, target in operation.pairs])
                self.copied(operation, operation.pairs)
            case Gather():
                self._mark_padding(operation.batch)
                self.untouched(operation)
            case Precopy():
                self._precopied(operation)
            case Forward():
                self._forwarded(operation)
            case PostUpdate():
                self.counted(operation)
                self.untouched(operation)
            case Postprocess():
                self._postprocessed(operation)
            case (
                Seed()
                | Writes()
                | BlockCounts()
                | CommitRows()
                | Preprocess()
                | Indices()
                | Sample()
                | Broadcast()
                | ScatterAccepted()
                | Advance()
                | FillAccepted()
                | Dummy()
            ):
                self.untouched(operation)
            case _:
                assert_never(operation)

    def report(self, violation: Violation) -> None:
        violation = bookkeeping.after_overwriting(self.rank.staging.overwritten, violation)
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
        self.handed_over = taken.recurrent
        return taken.recurrent

    def _admitted(self, operation: Admit) -> None:
        step = operation.taken
        self.admitted = step.number
        for _, new, freed_at in operation.seats:
            self.marks.add("prefix hit", new.num_computed_tokens > 0)
            self.marks.add("resumption", new.resumed)
            reused = freed_at is not None and step.number - freed_at < self.rank.pipeline.pp
            self.marks.add("slot reused within P steps", reused)
        if self.handed_over:
            self.filled(operation, self.handed_over, POISON)
        else:
            self.untouched(operation)

    def _early(self, operation: Zero | CopyBlocks, blocks: Sequence[int]) -> None:
        if operation.step <= self.admitted:
            return
        step, pending = self.planner.plans[operation.step].step, self.rank.queue.pending()
        overtaken = list(takewhile(lambda o: o.step <= operation.step and not isinstance(o, Admit), pending))
        for violation in bookkeeping.early_fills(self.rank.index, self.ledger, step, operation, blocks, overtaken):
            self.report(violation)

    def _rows(self, step: int, requests: Iterable[str]) -> list[PlanRow]:
        rows = self.planner.plans[step].rows
        return [rows[r] for r in requests if self.ledger.alive(r, rows[r].incarnation)]

    def taken(self, output: Taken) -> list[PlanRow]:
        """The rows of an output that concern this rank: of requests that it still has, and whose sample it needs."""
        rows = self._rows(output.of, output.requests)
        return rows if self.rank.is_last else [row for row in rows if row.needs_output]

    def _mark_padding(self, batch: Batch) -> None:
        padding = batch.num_padded - batch.num_rows
        self.marks.add("padded rows", padding > 0)
        self.marks.add("dirty rows zeroed", padding > 0 and self._rows_before > batch.num_rows)
        self._rows_before = batch.num_rows

    def _precopied(self, operation: Precopy) -> None:
        batch = operation.batch
        moves = [m for row in self._rows(batch.step, batch.requests) if (m := precopy(row)) is not None]
        self.marks.add("running column moved", len(moves))
        self.moved(operation, moves)

    def _postprocessed(self, operation: Postprocess) -> None:
        of, during, output = operation.output.of, operation.step, operation.output
        self.unconsumed.discard(of)
        self.marks.add("deferred output masked", len(self._rows(of, output.requests)) < len(output.requests))
        moves = [m for row in self.taken(output) if (m := postcopy(row)) is not None]
        if moves:
            self._mark_postprocess(moves, of, during)
        self.moved(operation, moves)

    def _mark_postprocess(self, moves: Sequence[ColumnCopy], of: int, during: int) -> None:
        layout, ledger = self.layout, self.ledger
        self.marks.add("state saved at a boundary", len(moves))
        shifts = [c for m in moves if m.bias for c in m.copies(layout, ledger) if c.bias and c.source == c.target]
        self.marks.add("same-block shift", len(shifts))
        if during != of and self.rank.gathered_step not in (None, of):
            self.marks.add("deferred postprocess over a re-gathered table")
        step = self.planner.plans[during].step
        leaving = [m for m in moves if m.request in step.finished or m.request in step.preempted]
        if leaving:
            lists = [n.block_ids for n in step.new] + [c.new_block_ids or () for c in step.cached]
            given = {block for groups in lists for ids in groups for block in ids}
            saved = (m.target_block(ledger, entry.group) in given for m in leaving for entry in layout.states)
            self.marks.add("open window", sum(saved))

    def _forwarded(self, operation: Forward) -> None:
        batch = operation.batch
        plan = self.planner.plans[batch.step]
        self.computed(operation, [plan.rows[r] for r in batch.requests])
        self.fresh_attention = []
        if not self.rank.is_last and batch.needs_output.any():
            self.unconsumed.add(batch.step)
