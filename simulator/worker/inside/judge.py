"""Judges one rank of the engine's own worker by what its requests' own plan asks for.

The truth is the simulator's: the plan of each row, the ledger of block ownership on this rank's timeline, and a shadow
of the pages that every intention is applied to. The worker's memory is compared after every launch whatever its name; a
difference is put down to the launch that made it. Nothing here looks at the worker's tables, rows or slots to find out
what should be; they are compared with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from stalerow.kernels.base.memory import POISON
from stalerow.kernels.own.forward import ForwardStep
from stalerow.simulator.draw.record import Seat
from stalerow.simulator.oracle.effect import ColumnCopy, apply_copy, postcopy, precopy
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.oracle.shadow import Shadow
from stalerow.simulator.oracle.violations import Marks, Violation
from stalerow.simulator.truth.plan import PlanRow
from stalerow.simulator.worker.inside.explain import Explainer
from stalerow.simulator.worker.inside.metadata import Batch
from stalerow.simulator.worker.inside.recorder import RankRecorder
from stalerow.simulator.worker.inside.watched import Watched
from stalerow.simulator.worker.owned import DIGEST_BYTES, extent, owned_digest
from stalerow.simulator.worker.protocol import RankStep

Report = Callable[[Violation], None]


class Judge:
    """One rank's judge. `launches` counts what ran; `records` are kept for comparing, if `keeps` asks for it."""

    def __init__(
        self, rank: Watched, marks: Marks, report: Report, recorder: RankRecorder | None, keeps: bool = False
    ) -> None:
        self.rank, self.marks, self._report, self._recorder = rank, marks, report, recorder
        self.layout, self.planner = rank.schedule.layout, rank.planner
        self.ledger = Ledger(self.layout)
        self._shadow = Shadow(self.layout, rank.max_rows, rank.max_blocks)
        self.pages = self._shadow.pages
        self.explain = Explainer(rank.index, self.layout, self.planner, self.ledger, self.pages, rank.numbers)
        self._before = rank.memory.pages.copy()
        self._writers: list[str] = []
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._consumed: set[int] = set()
        self._rows_before = 0
        self.freed_at: dict[int, int] = {}
        self.launches = 0
        self.records: list[RankStep] = []
        self._keeps = keeps
        self._kept: tuple[str, ...] | None = None

    @property
    def units(self) -> int:
        return self._shadow.units

    def launched(self, name: str) -> None:
        """Something has run on the rank's device: note whether it wrote to a page."""
        self.launches += 1
        if self._recorder is not None:
            self._recorder.launched(name)
        if not np.array_equal(self._before, self.rank.memory.pages):
            self._writers.append(name)
            self._before[:] = self.rank.memory.pages

    def _compare(self, launch: str, of: int, during: int, copies: Sequence[ColumnCopy] = ()) -> None:
        """Memory must equal the shadow; whoever wrote since the last look is to blame."""
        self.settle(launch, of, during, copies)
        actual, writers = self.rank.memory.pages, self._writers
        self._writers = []
        if not np.array_equal(actual, self.pages):
            by = ", ".join(dict.fromkeys(writers)) or "no launch"
            self._report(self.explain.wrong_memory(launch, of, during, by, self.pages, actual, copies))
            self.pages[:] = actual
        self._before[:] = actual

    def settle(self, launch: str, of: int, during: int, copies: Sequence[ColumnCopy] = ()) -> None:
        """Tell the recorder what everything since the last call was meant to do."""
        if self._recorder is None:
            return
        states = [copy for move in copies for copy in move.copies(self.layout, self.ledger)]
        step, kept = self.planner.plans[during].step, self._kept if launch == "postprocess" else None
        self._recorder.settle(launch, of, during, self.ledger, states, step.zero, step.copies, kept)

    def _rows(self, step: int, requests: Iterable[str]) -> list[PlanRow]:
        rows = self.planner.plans[step].rows
        return [rows[r] for r in requests if self.ledger.alive(r, rows[r].incarnation)]

    def launched_postprocess(self, requests: Sequence[str], kept: Sequence[int]) -> None:
        """An output was taken for a batch of `requests`, of whose rows those in `kept` were not masked."""
        self._kept = tuple(requests[i] for i in kept if i < len(requests))

    def consumed(self, of: int, during: int) -> None:
        """The output of step `of` has been taken: boundary states are saved, and the numbers are the plan's."""
        plan = self.planner.plans.get(of)
        if plan is None or not plan.rows or of in self._consumed:
            return
        self._consumed.add(of)
        names = list(plan.rows)
        rows = self._rows(of, names)
        self.marks.add("deferred output masked", len(rows) < len(names))
        if not self.rank.is_last:
            rows = [row for row in rows if row.needs_output]
        moves = [move for row in rows if (move := postcopy(row)) is not None]
        gathered = self.rank.gathered
        if moves:
            self._mark_postprocess(moves, of, during, gathered)
        self._move(moves)
        self._compare("postprocess", of, during, moves)
        self._numbers(of, during, rows)
        self._kept = None

    def _mark_postprocess(self, moves: Sequence[ColumnCopy], of: int, during: int, gathered: int | None) -> None:
        self.marks.add("state saved at a boundary", len(moves))
        shifts = [c for m in moves if m.bias for c in m.copies(self.layout, self.ledger) if c.bias]
        self.marks.add("same-block shift", sum(c.source == c.target for c in shifts))
        if during != of and gathered not in (None, of):
            self.marks.add("deferred postprocess over a re-gathered table")
        step = self.planner.plans[during].step
        leaving = [m for m in moves if m.request in step.finished or m.request in step.preempted]
        if leaving:
            lists = [n.block_ids for n in step.new] + [c.new_block_ids or () for c in step.cached]
            given = {block for groups in lists for ids in groups for block in ids}
            saved = (m.target_block(self.ledger, e.group) in given for m in leaving for e in self.layout.states)
            self.marks.add("open window", sum(saved))

    def _move(self, moves: Sequence[ColumnCopy]) -> None:
        copies = [copy for move in moves for copy in move.copies(self.layout, self.ledger)]
        before = self.pages.copy()
        for copy in copies:
            apply_copy(self.layout, self.pages, copy, before)

    def _numbers(self, of: int, during: int, rows: Sequence[PlanRow]) -> None:
        """After an output was taken: accepted count and computed tokens of each slot."""
        for row in rows:
            numbers = self.rank.numbers(row.request)
            if numbers is None:
                self._report(self.explain.no_slot(row, of, during))
                continue
            wanted = {"num_accepted": row.accepted_after, "num_computed": row.end}
            for name, value in wanted.items():
                if numbers[name] != value:
                    self._report(self.explain.wrong_number(row, of, during, name, numbers[name], value))

    def taken(self, during: int) -> None:
        """The rank has freed slots: blocks change hands here, and recurrent ones are poisoned."""
        step = self.planner.plans[during].step
        self._compare("free", during, during)
        self.ledger.take_frees(step)
        taken = self.ledger.take_admissions(step)
        self.marks.add("block reused", taken.reused)
        self.marks.add("speculative block relocated", taken.relocated)
        for new in step.new:
            self.marks.add("prefix hit", new.num_computed_tokens > 0)
            self.marks.add("resumption", new.resumed)
        if taken.recurrent:
            blocks = list(taken.recurrent)
            self.pages[:, blocks] = POISON
            self.rank.memory.pages[:, blocks] = POISON
            self._before[:, blocks] = POISON
        if self._recorder is not None:
            self._recorder.taken(during, self.ledger, taken.recurrent)

    def updated(self, during: int) -> None:
        """Requests are added and updated: new attention blocks zeroed, copy-on-write blocks copied."""
        step = self.planner.plans[during].step
        for new in step.new:
            self._slot_reuse(new.request, during)
        before = self.pages.copy()
        for block in step.zero:
            self.pages[:, block, : self._extent(block)] = 0
        zeroed = self.pages.copy() if step.copies else before
        for source, target in step.copies:
            extent = self._extent(target)
            self.pages[:, target, :extent] = zeroed[:, source, :extent]
        for block in [*step.zero, *(target for _, target in step.copies)]:
            # What no owner of the block uses may be written or left.
            self.pages[:, block, self._extent(block) :] = self.rank.memory.pages[:, block, self._extent(block) :]
        self._compare("zero" if step.zero else "copy_blocks", during, during)

    def _slot_reuse(self, request: str, during: int) -> None:
        numbers = self.rank.numbers(request)
        if numbers is not None:
            freed = self.freed_at.get(numbers["slot"])
            pp = self.rank.schedule.pipeline.pp
            self.marks.add("slot reused within P steps", freed is not None and during - freed < pp)

    def _extent(self, block: int) -> int:
        return extent(self.layout, self.ledger, block)

    def gathering(self, during: int, padded: int) -> None:
        count = len(self.rank.rows)
        self.marks.add("padded rows", padded > count)
        self.marks.add("dirty rows zeroed", padded > count and self._rows_before > count)
        self._rows_before = count
        if self._recorder is not None:
            numbers = [self.rank.numbers(r) or {} for r in self.rank.rows]
            self._recorder.seats[during] = tuple(
                Seat(request=r, slot=n.get("slot", -1)) for r, n in zip(self.rank.rows, numbers)
            )
            self._recorder.padded[during] = padded - count

    def precopied(self, during: int, requests: tuple[str, ...]) -> None:
        moves = [m for row in self._rows(during, requests) if (m := precopy(row)) is not None]
        self.marks.add("running column moved", len(moves))
        self._move(moves)
        self._compare("precopy", during, during, moves)

    def about_to_forward(self, during: int, requests: tuple[str, ...], batch: Batch) -> None:
        """What the worker gives its layers must be what the plan says of each row."""
        self._compare("prepare_attn", during, during)
        for violation in self.explain.batch(during, requests, batch):
            self._report(violation)

    def inputs(
        self, during: int, requests: tuple[str, ...], batch: Batch, ids: list[int], positions: list[int]
    ) -> np.ndarray:
        """Damage of each row by its input tokens and positions: 0 where they are the request's own."""
        damage = np.zeros(len(requests), dtype=np.int64)
        for i, request in enumerate(requests):
            row = self.planner.plans[during].rows[request]
            first, last = batch.query_start_loc[i : i + 2].tolist()
            known = last - first - row.num_drafts
            wanted = self.rank.truth.tokens(request, row.start, row.start + known)
            if ids[first : first + known] != wanted or positions[first : first + 1] != [row.start]:
                found = ids[first : first + known]
                self._report(self.explain.wrong_input(row, during, found, wanted, positions[first]))
                damage[i] = 1 + during
        return damage

    def forwarding(self, during: int, requests: tuple[str, ...], batch: Batch, inputs: ForwardStep) -> None:
        """The intention, applied to the shadow by request and column."""
        rows = [self.planner.plans[during].rows[r] for r in requests]
        self._shadow.forward(self.ledger, rows, inputs.hashes, inputs.activation_in)

    def forwarded(
        self,
        during: int,
        requests: tuple[str, ...],
        batch: Batch,
        inputs: ForwardStep,
        damage: np.ndarray,
        leaving: np.ndarray,
    ) -> None:
        self.settle("forward", during, during)
        rows = [self.planner.plans[during].rows[r] for r in requests]
        before = self._before.copy()
        for violation in self.explain.wrong_reads(during, rows, batch, damage, before):
            self._report(violation)
        self._compare("forward", during, during)
        if self.rank.is_last:
            for row, value in zip(rows, leaving.tolist()):
                if value and row.num_sampled:
                    self._report(self.explain.diverged(row, during))
        self._digest.update(self.rank.memory.pages.tobytes())
        if self._keeps:
            self.records.append(self._row_record(during, requests, batch))

    def _row_record(self, during: int, requests: tuple[str, ...], batch: Batch) -> RankStep:
        numbers = [self.rank.numbers(r) or {} for r in requests]
        lengths = [batch.is_spec[i] * self.layout.num_drafts + 1 for i in range(len(requests))]
        used = [self.ledger.columns[r] for r in requests]
        return RankStep(
            rank=self.rank.index,
            step=during,
            requests=requests,
            tokens=tuple(np.diff(batch.query_start_loc[: len(requests) + 1]).tolist()),
            seq_lens=tuple(batch.seq_lens.tolist()),
            verifies=tuple(map(bool, batch.is_spec.tolist())),
            slots=tuple(n.get("slot", -1) for n in numbers),
            computed=tuple(n.get("num_computed", -1) for n in numbers),
            state_idx=tuple(n.get("state_idx", -1) for n in numbers),
            accepted=tuple(batch.accepted.tolist()),
            tables=tuple(
                tuple(tuple(self.rank.gathered_row(g, i, len(used[i][g]))) for i in range(len(requests)))
                for g in range(len(self.layout.groups))
            ),
            columns=tuple(
                tuple(tuple(batch.columns[g, i, : lengths[i]].tolist()) for i in range(len(requests)))
                for g in range(len(self.layout.recurrent_groups))
            ),
            memory=owned_digest(self.layout, self.ledger, self.rank.memory.pages),
        )

    def idled(self, during: int) -> None:
        """A dummy run has been done, which writes to no block that anybody owns."""
        self._compare("dummy", during, during)

    def ended(self, during: int) -> None:
        """The rank's host has done a step."""
        self._compare("end of step", during, during)

    def digest(self) -> bytes:
        return self._digest.digest()
