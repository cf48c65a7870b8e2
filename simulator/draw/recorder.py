"""Turns a run of the project's own ranks into a `Record`: an observer of the loop that looks after every event.

It keeps a copy of every rank's pool, so that each launch's writes are what really changed; what a launch was meant to
do comes from the plan and the ledger, as the oracle has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stalerow.kernels.base.memory import POISON
from stalerow.simulator.draw.clock import Clock
from stalerow.simulator.draw.record import (
    Asked,
    Event,
    Executed,
    Group,
    Move,
    Output,
    Owner,
    OwnerChange,
    Prepared,
    Processed,
    Record,
    Scheduled,
    Seat,
    Waited,
    What,
    Write,
)
from stalerow.simulator.draw.scheduling import scheduled
from stalerow.simulator.draw.writes import Reader, changed_blocks, filled, moves_of
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.effect import StateCopy, postcopy, precopy
from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.rank.operations import (
    Admit,
    CopyBlocks,
    Forward,
    Free,
    Operation,
    Postprocess,
    PostUpdate,
    Precopy,
    Sample,
    ScatterAccepted,
    Zero,
)
from stalerow.simulator.serve.costs import Costs

if TYPE_CHECKING:
    from stalerow.simulator.rank.base import Rank
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.run.simulation import Observer, Simulation
    from stalerow.simulator.schedule.values import Schedule


class _RankView:
    """What the recorder remembers of a rank: its pages after the last launch, and who owned what."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.pages = self.read()
        self.owners: dict[int, tuple[Owner, ...]] = {}

    def read(self) -> np.ndarray:
        return self.rank.pool.pages(np.array(self.rank.backend.to_host(self.rank.pool.array)))

    def owner_changes(self, ledger: Ledger) -> tuple[OwnerChange, ...]:
        now = {
            block: tuple(Owner(request=o.request, group=o.group, column=o.column) for o in owners)
            for block, owners in ledger.owners.items()
        }
        changed = sorted(b for b in {*now, *self.owners} if now.get(b) != self.owners.get(b))
        self.owners = now
        return tuple(OwnerChange(block=b, owners=now.get(b, ())) for b in changed)


class Recorder:
    """An observer. `events` grows while the run goes on; `record` is asked for at its end."""

    def __init__(self, schedule: Schedule, costs: Costs | None = None) -> None:
        p = schedule.pipeline
        self._schedule = schedule
        self.events: list[Event] = []
        self._clock = Clock(costs or Costs(), p.pp, p.drafts)
        self._views: list[_RankView] = []
        self._decoder: Decoder | None = None
        self._enqueued: dict[int, tuple[Operation, int]] = {}
        self._found = 0
        self._oldest: tuple[int, ...] = ()
        self._left = {r.id: r.max_tokens for r in schedule.requests}
        self._lookup: Any = "slot"

    def __call__(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> None:
        if not self._views:
            self._views = [_RankView(rank) for rank in simulation.ranks]
            self._lookup = "slot" if simulation.kernels.align.reads_slot_tables else "row"
        number = len(self.events) + 1
        what, (start, end) = self._what(simulation, actor, done, number)
        found = tuple(range(self._found, len(simulation.found)))
        self._found = len(simulation.found)
        kind = actor.rstrip("0123456789")
        name: Any = {"device": "main"}.get(kind, kind)
        rank = -1 if kind == "engine" else len(self._views) - 1 if kind == "side" else int(actor[len(kind) :])
        self._oldest = simulation.engine.core.inflight
        self.events.append(
            Event(
                number=number,
                actor=name,
                rank=rank,
                start=start,
                end=end,
                in_flight=len(self._oldest),
                violations=found,
                what=what,
            )
        )

    def ran(self, events: Sequence[Event], lookup: Literal["slot", "row"]) -> None:
        """An engine's own worker has run the schedule, in a process of its own that recorded it."""
        self.events, self._lookup = list(events), lookup

    def record(self, outcome: Outcome, kernels: str, again: str = "") -> Record:
        """The whole run. `kernels` is what the reader knows them by."""
        schedule = self._schedule
        p, layout = schedule.pipeline, schedule.layout
        return Record(
            kernels=kernels,
            pp=p.pp,
            drafts=p.drafts,
            runner=p.runner,
            num_blocks=layout.num_blocks,
            lookup=self._lookup,
            groups=tuple(Group(kind=g.kind, block_size=g.block_size) for g in layout.groups),
            requests=tuple(Asked(id=r.id, prompt=r.prompt_len, max_tokens=r.max_tokens) for r in schedule.requests),
            events=tuple(self.events),
            seed=schedule.draw.seed if schedule.draw else None,
            deviations=schedule.order.deviations,
            violations=outcome.violations,
            marks=outcome.marks,
            steps=outcome.steps,
            stopped=outcome.stopped,
            digest=outcome.digest,
            again=again,
        )

    def _what(
        self, simulation: Simulation, actor: str, done: Operation | Step | None, number: int
    ) -> tuple[What, tuple[int, int]]:
        if isinstance(done, Step):
            self._decoder = None
            return self._scheduled(done), self._clock.scheduled(done.number)
        if done is not None:
            rank = len(self._views) - 1 if actor == "side" else int(actor.removeprefix("device"))
            return self._executed(simulation, rank, actor, done)
        if actor.startswith("host"):
            return self._prepared(simulation, int(actor.removeprefix("host")), number)
        inflight = simulation.engine.core.inflight
        if self._oldest and inflight[:1] != self._oldest[:1]:
            return self._processed(simulation, self._oldest[0])
        return Waited(), self._clock.waited()

    def _scheduled(self, step: Step) -> Scheduled:
        return scheduled(step, {r for r in step.finished if self._left.get(r, 0) > 0})

    def _processed(self, simulation: Simulation, number: int) -> tuple[Processed, tuple[int, int]]:
        plan = simulation.planner.plans[number]
        outputs = []
        for request, tokens in plan.sampled.items():
            count = min(len(tokens), self._left[request])
            self._left[request] -= count
            drafts = plan.rows[request].num_drafts
            accepted = max(len(tokens) - 1, 0) if drafts else 0
            outputs.append(Output(request=request, tokens=count, drafts=drafts, accepted=accepted))
        return Processed(step=number, outputs=tuple(outputs)), self._clock.processed(number)

    def _prepared(self, simulation: Simulation, index: int, number: int) -> tuple[Prepared, tuple[int, int]]:
        rank = simulation.ranks[index]
        fresh = [o for o in (*rank.queue.pending(), *rank.side.pending()) if id(o) not in self._enqueued]
        for operation in fresh:
            self._enqueued[id(operation)] = operation, number
        step = fresh[0].step if fresh else 0
        return Prepared(step=step, launches=tuple(o.kind for o in fresh)), self._clock.prepared(index, step)

    def _executed(
        self, simulation: Simulation, index: int, actor: str, operation: Operation
    ) -> tuple[Executed, tuple[int, int]]:
        view, ledger = self._views[index], simulation.judges[index].ledger
        enqueued = self._enqueued.pop(id(operation), (operation, -1))[1]
        batch = getattr(operation, "batch", None)
        rows = seats(operation)
        meant, copies = self._meant(simulation, index, operation)
        writes: tuple[Write, ...] = ()
        if actor != "side":
            now = view.read()
            writes = self._writes(simulation, index, operation, now, copies, [seat.request for seat in rows])
            view.pages = now
        owners = view.owner_changes(ledger) if isinstance(operation, Free | Admit) else ()
        gathered = simulation.ranks[index].gathered_step
        what = Executed(
            launch=operation.kind,
            step=operation.step,
            of=operation.batch_step,
            enqueued=enqueued,
            rows=rows,
            padded=batch.num_padded - batch.num_rows if batch is not None else 0,
            table=-1 if gathered is None else gathered,
            meant=meant,
            writes=writes,
            owners=owners,
        )
        return what, self._timed(index, actor, operation, len({m.request for m in meant}))

    def _timed(self, index: int, actor: str, operation: Operation, moves: int) -> tuple[int, int]:
        clock, step, last = self._clock, operation.step, index == len(self._views) - 1
        if actor == "side":
            return clock.broadcast(index, step)
        match operation:
            case Forward():
                return clock.forward(index, step, int(operation.batch.query_start_loc[operation.batch.num_rows]))
            case Sample():
                return clock.sample(index, step)
            case Precopy() | Postprocess():
                return clock.copies(index, step, moves)
            case PostUpdate() if not last:
                return clock.launch(index, step, operation.batch_step)
            case _:
                return clock.launch(index, step)

    def _meant(
        self, simulation: Simulation, index: int, operation: Operation
    ) -> tuple[tuple[Move, ...], list[StateCopy]]:
        """The state copies that the launch was to do, by block: once per group, and once per state tensor."""
        if not isinstance(operation, Precopy | Postprocess) or operation.batch_step not in simulation.planner.plans:
            return (), []
        ledger, layout = simulation.judges[index].ledger, self._schedule.layout
        find = precopy if isinstance(operation, Precopy) else postcopy
        late = isinstance(operation, Postprocess) and index < len(self._views) - 1
        rows = [
            row
            for row in simulation.planner.plans[operation.batch_step].rows.values()
            if ledger.alive(row.request, row.incarnation) and (row.needs_output or not late)
        ]
        moves = [move for row in rows if (move := find(row)) is not None]
        copies = [copy for move in moves for copy in move.copies(layout, ledger)]
        return moves_of(copies), copies

    def _writes(
        self,
        simulation: Simulation,
        index: int,
        operation: Operation,
        now: np.ndarray,
        copies: Sequence[StateCopy],
        batch: Sequence[str],
    ) -> tuple[Write, ...]:
        before = self._views[index].pages
        blocks = changed_blocks(before, now)
        if not blocks and not isinstance(operation, Zero | Admit):
            return ()
        if self._decoder is None:
            self._decoder = Decoder(simulation.planner, self._schedule.layout)
        reader, judge = Reader(self._schedule.layout, self._decoder), simulation.judges[index]
        match operation:
            case Zero():
                return filled(blocks, operation.blocks, 0)
            case Admit():
                return filled(blocks, judge.handed_over, POISON)
            case CopyBlocks():
                return tuple(reader.pages_copied(now, blocks, operation.pairs))
            case Precopy() | Postprocess():
                return tuple(reader.states_copied(before, now, copies, judge.ledger.owners))
            case _:
                return tuple(reader.forwarded(now, blocks, judge.ledger.owners, batch))


def seats(operation: Operation) -> tuple[Seat, ...]:
    """The rows that a launch works for; none for one that has no batch."""
    if isinstance(operation, PostUpdate | ScatterAccepted | Postprocess):
        output = operation.output
        return tuple(
            Seat(request=r, slot=int(s), masked=r not in output.kept) for r, s in zip(output.requests, output.slots)
        )
    batch = getattr(operation, "batch", None)
    if batch is None:
        return ()
    return tuple(Seat(request=r, slot=int(s)) for r, s in zip(batch.requests, batch.slots))


def recorded(schedule: Schedule, run: Callable[[Schedule, Observer], Outcome], kernels: str, again: str = "") -> Record:
    """Run the schedule with `run` and record it."""
    recorder = Recorder(schedule)
    outcome = run(schedule, recorder)
    return recorder.record(outcome, kernels, again)
