"""Run a schedule's host side without kernels and write down what its ranks' devices have to do.

The ranks, the engine and the ledger are the ordinary ones. `_Noting` is a kernel set that notes the arguments of its
launches; `Recorder` takes the judge's place and notes intentions, and the order in which operations ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stalerow.kernels.base.device import NumpyBackend
from stalerow.kernels.own.universes import UNCHECKED
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.oracle.effect import ColumnCopy
from stalerow.simulator.oracle.expected import after_output, before_forward
from stalerow.simulator.oracle.explain.wording import violation
from stalerow.simulator.oracle.violations import Marks, Violation
from stalerow.simulator.oracle.watch import Watch
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import Broadcast, Copying, Dummy, Forward, Operation, PostUpdate, Precopy
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.released import check_layout, worker_policy
from stalerow.simulator.run.ordering import chooser
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.plan import Planner, PlanRow, Unhashed
from stalerow.simulator.universes.tape import Tape, UniverseTape


def record(schedule: Schedule, align: Any) -> Tape:
    """The tape of a schedule for the align kernels of a set (their caller's habits matter, their results do not).

    Raises `UsageError` for a schedule that no engine would accept or that runs under V1, `RefusedLayout` for one that
    the kernels' own release would not serve.
    """
    if schedule.pipeline.runner != "v2":
        raise UsageError("many universes run under runner v2 only: give --runner v2")
    check_layout(schedule.layout, align)
    watches: list[Recorder] = []
    numbers = {request.id: i for i, request in enumerate(schedule.requests)}

    def watch(rank: Rank, planner: Planner, marks: Marks, found: list[Violation]) -> Recorder:
        watches.append(Recorder(rank, planner, marks, found, numbers, noting))
        return watches[-1]

    policy: Callable[[Schedule], RankPolicy] = worker_policy(RankPolicy, align)
    noting = _Noting()
    kernels = KernelSet("recorded", noting, noting, NumpyBackend())  # type: ignore[arg-type]
    order = chooser(schedule)
    simulation = Simulation(schedule, kernels, order, rank_policy=policy, watch=watch, planner=Unhashed)
    simulation.run()
    rank = simulation.ranks[0]
    streams = simulation.planner.streams
    return Tape(
        ranks=[w.tape.arrays() for w in watches],
        orders=[w.tape.ordered(simulation.engine.steps) for w in watches],
        frames=simulation.engine.steps,
        sizes={
            "blocks": schedule.layout.num_blocks,
            "slots": rank.max_reqs,
            "columns": rank.max_blocks,
            "positions": rank.span,
        },
        tokens=[np.array(streams[r.id].tokens, dtype=np.int32) for r in schedule.requests],
        hashes=[np.array(streams[r.id].hashes, dtype=np.uint64).view(np.int64) for r in schedule.requests],
        suspects=simulation.found,
        marks=dict(simulation.marks),
        zero_padding=rank.policy.zero_padding,
    )


class Recorder(Watch):
    """Notes intentions on the rank's tape instead of judging them."""

    def __init__(
        self,
        rank: Rank,
        planner: Planner,
        marks: Marks,
        found: list[Violation],
        numbers: dict[str, int],
        noting: _Noting,
    ) -> None:
        super().__init__(rank, planner, marks, found)
        self.tape, self.numbers, self._noting = UniverseTape(), numbers, noting
        self.pending: list[tuple[int, int, int]] = []
        self.admitted_requests: list[str] = []
        self.counts = np.zeros_like(rank.backend.to_host(rank.tables.num_blocks))
        self._columns: dict[str, list[int]] = {}
        self._tables = self.tape.tables

    def before(self, operation: Operation) -> None:
        self._noting.at(self, operation)
        if not isinstance(operation, Broadcast):
            self.tape.orders.setdefault(operation.step - 1, []).append(operation.kind)

    def filled(self, operation: Operation, blocks: Sequence[int], byte: int) -> None:
        table = self._tables["poisoned" if byte else "zeroed"]
        table += [(operation.step - 1, block) for block in blocks]

    def copied(self, operation: Operation, pairs: Sequence[tuple[int, int]]) -> None:
        self._tables["pages"] += [(operation.step - 1, *pair) for pair in pairs]

    def untouched(self, operation: Operation) -> None:
        if isinstance(operation, Dummy):
            raise UsageError(f"many universes cannot run a worker that launches {operation.kind}")

    def accept(self) -> None:
        raise InternalError("a recorded operation was refused")

    def moved(self, operation: Copying, moves: Sequence[ColumnCopy]) -> None:
        if not moves:
            return
        ledger, frame = self.ledger, operation.step - 1
        table = self._tables["premoves" if isinstance(operation, Precopy) else "postmoves"]
        for move in moves:
            for index, group in enumerate(self.layout.recurrent_groups):
                conv = ledger.block(move.request, group, move.source)
                temporal = ledger.block(move.request, group, move.source + move.bias)
                target = move.target_block(ledger, group)
                table.append((frame, index, conv, temporal, target, move.bias))
                for block in (conv, temporal, target):
                    if not ledger.owns(move.request, group, block):
                        self._unowned(operation, move, block)

    def _unowned(self, operation: Copying, move: ColumnCopy, block: int) -> None:
        """Which tensors it concerns is for the run alone to say."""
        text = f"{move.request}'s state moves by way of block {block}, which it does not own"
        self.report(violation(self.rank.index, operation, "use after free", text, request=move.request))

    def computed(self, operation: Forward, rows: Sequence[PlanRow]) -> None:
        batch = operation.batch
        frame, tables = operation.step - 1, self._tables
        streams = self.planner.streams
        copied = {target for _, target in self.planner.plans[operation.step].step.copies}
        tables["fresh"] += [(frame, block) for block in self.fresh_attention if block not in copied]
        for i, (row, slot, spec) in enumerate(zip(rows, batch.slots.tolist(), batch.is_spec.tolist())):
            streams[row.request].hash_at(row.end)
            computed, total, token = before_forward(self.planner, row)
            tables["rows"].append(
                (
                    frame,
                    i,
                    slot,
                    row.num_tokens,
                    int(spec),
                    self.numbers[row.request],
                    row.end,
                    computed,
                    row.column,
                    row.accepted_in_forward,
                    UNCHECKED if total is None else total,
                    UNCHECKED if token is None else token,
                )
            )

    def counted(self, operation: PostUpdate) -> None:
        expected = []
        for row, _, counts, taken_by in after_output(self.planner, self.ledger, operation.output):
            if taken_by is not None:
                text = f"the output of step {row.step} for {row.request} goes to a slot that it has left"
                self.report(violation(self.rank.index, operation, "stale slot", text, request=row.request))
            values = counts or (None, None, None)
            expected.append(tuple(UNCHECKED if value is None else value for value in values))
        frame, outcomes = operation.step - 1, self._tables["outcomes"]
        for i, slot, query_len in self.pending:
            outcomes.append((frame, i, slot, query_len, *expected[i]))

    def poison(self, step: Any) -> list[int]:
        """Also notes which blocks the step's requests get, column by column."""
        blocks = super().poison(step)
        frame, owned = step.number - 1, self._tables["owned"]
        self.admitted_requests = [new.request for new in step.new]
        for request in (*self.admitted_requests, *(known.request for known in step.cached)):
            number = self.numbers[request]
            known = self._columns.setdefault(request, [0] * len(self.layout.groups))
            for group, ids in enumerate(self.ledger.columns[request]):
                first = known[group]
                if request in self.admitted_requests:
                    # What an earlier incarnation left behind must not be read.
                    owned += [(frame, group, number, column, 0) for column in range(len(ids), first)]
                    first = 0
                owned += [(frame, group, number, column, ids[column]) for column in range(first, len(ids))]
                known[group] = len(ids)
        return blocks

    def final(self, hashed: Any) -> None:
        layout, planner = self.layout, self.planner
        frame = max(planner.plans, default=1) - 1
        for block, cached in self.offered(hashed):
            planner.streams[cached.request].hash_at(cached.num_tokens)
            index = layout.recurrent_groups.index(cached.group)
            self._tables["cached"].append((frame, index, self.numbers[cached.request], block, cached.num_tokens))

    def digest(self) -> bytes:
        raise InternalError("a recording has no memory to digest")


class _Noting:
    """Operators and align kernels in one: calls are noted on the tape of the launching rank, and compute nothing."""

    reads_slot_tables = True
    _recorder: Recorder
    _frame: int
    _tables: dict[str, list[tuple[int, ...]]]

    def at(self, recorder: Recorder, operation: Operation) -> None:
        """The launches that follow belong to this operation."""
        self._recorder, self._frame, self._tables = recorder, operation.step - 1, recorder.tape.tables
        late = 0 if recorder.rank.is_last else recorder.rank.pipeline.pp
        if isinstance(operation, PostUpdate) and operation.step - operation.batch_step != late:
            raise UsageError("many universes run workers that take an output P steps late, which this one does not")

    def _follows(self, *args: Any) -> None:
        """What it does follows from what is noted elsewhere."""

    preprocess = precopy = aligned_indices = seq_lens = fill_blocks = copy_blocks = forward = _follows
    scatter_accepted = postprocess = advance_computed = _follows

    def apply_writes(self, tables: Any, groups: Any, slots: Any, starts: Any, ends: Any, contents: Any, n: int) -> None:
        begin, ids, frame, noted = 0, contents.tolist(), self._frame, self._tables["writes"]
        for group, slot, start, end in zip(groups.tolist(), slots.tolist(), starts.tolist(), ends.tolist()):
            noted += [(frame, group, slot, start + k, ids[begin + k]) for k in range(end - begin)]
            begin = end

    def set_num_blocks(self, tables: Any, values: np.ndarray) -> None:
        changed = np.argwhere(values != self._recorder.counts).tolist()
        if changed:
            frame = self._frame
            self._tables["counts"] += [(frame, g, s, int(values[g, s])) for g, s in changed]
            self._recorder.counts = values.copy()

    def gather(self, tables: Any, idx_mapping: Any, num_rows: int, padded: int, zero_padding: bool = True) -> None:
        if padded > num_rows:
            frame = self._frame
            self._tables["padding"] += [(frame, row) for row in range(num_rows, padded)]

    def seed_slots(
        self, slots: Any, ids: Any, columns: Any, accepted: Any, computed: Any, totals: Any, tokens: Any, n: int
    ) -> None:
        frame = self._frame
        requests = [self._recorder.numbers[r] for r in self._recorder.admitted_requests]
        values = (a.tolist() for a in (ids, columns, accepted, computed, totals))
        self._tables["seeds"] += [(frame, *row) for row in zip(*values, requests)]

    def post_update(
        self, slots: Any, idx: Any, tokens: Any, num_sampled: Any, num_rejected: Any, qsl: Any, num_rows: int
    ) -> None:
        frame = self._frame
        lens = [0] * num_rows if qsl is None else np.diff(qsl[: num_rows + 1]).tolist()
        self._recorder.pending = [(i, s, lens[i]) for i, s in enumerate(idx[:num_rows].tolist()) if s >= 0]
        if self._recorder.rank.is_last:
            rows = zip(range(num_rows), num_sampled.tolist(), num_rejected.tolist(), tokens.tolist())
            self._tables["sampled"] += [(frame, i, count, rejected, *ids) for i, count, rejected, ids in rows]

    def fill_accepted(self, slots: Any, idx: Any, value: int, num_rows: int) -> None:
        frame = self._frame
        self._tables["neutral"] += [(frame, slot) for slot in idx[:num_rows].tolist()]
