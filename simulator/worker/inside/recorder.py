"""Records a run of the engine's own worker as the events that every screen draws, writes and ownership included.

Launches are kept with the pages that they changed until the judge says what their phase was meant to do; then each
becomes an event. Kernels go by the names of the operations that they are; those that are none keep their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import POISON
from stalerow.simulator.draw.clock import Clock
from stalerow.simulator.draw.record import (
    Event,
    Executed,
    Owner,
    OwnerChange,
    Prepared,
    Processed,
    Scheduled,
    Seat,
    What,
    Write,
)
from stalerow.simulator.draw.writes import Reader, changed_blocks, filled, moves_of
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.effect import StateCopy
from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.truth.plan import Planner

OPERATIONS = (
    ("postprocess_mamba", "postprocess"),
    ("preprocess_mamba", "preprocess"),
    ("precopy_mamba", "precopy"),
    ("aligned_state_indices", "indices"),
    ("gather_block_tables", "gather"),
    ("zero_kv", "zero"),
    ("apply_write", "writes"),
    ("scatter_num_accepted", "scatter_accepted"),
    ("post_update_num_computed", "advance"),
    ("post_update", "post_update"),
    ("num_sampled_and_rejected", "sample"),
)
"""Part of a kernel's name, and the operation that it is."""


def operation_of(kernel: str) -> str:
    """The operation's name, or the kernel's own without what every kernel's name has."""
    known = next((name for part, name in OPERATIONS if part in kernel), None)
    return known or kernel.strip("_").removesuffix("_kernel")


@dataclass(slots=True)
class _Launched:
    name: str
    before: np.ndarray | None = None
    after: np.ndarray | None = None


class RankRecorder:
    """One rank's launches. `pages` is the rank's memory, uint8 [layers, num_blocks, page_bytes], in place.

    seats: rows by step, as they were gathered; gathered: the step whose batch the gathered tables hold, -1 for none.
    """

    def __init__(self, told: Recorder, rank: int, pages: np.ndarray) -> None:
        self._told, self._rank, self._pages = told, rank, pages
        self._last = pages.copy()
        self._waiting: list[_Launched] = []
        self._owners: dict[int, tuple[Owner, ...]] = {}
        self.seats: dict[int, tuple[Seat, ...]] = {}
        self.padded: dict[int, int] = {}
        self.gathered = -1

    def launched(self, name: str) -> None:
        """A kernel has just run."""
        if np.array_equal(self._last, self._pages):
            self._waiting.append(_Launched(operation_of(name)))
            return
        now = self._pages.copy()
        self._waiting.append(_Launched(operation_of(name), self._last, now))
        self._last = now

    def settle(
        self,
        phase: str,
        of: int,
        during: int,
        ledger: Ledger,
        copies: Sequence[StateCopy] = (),
        zeroed: Sequence[int] = (),
        pairs: Sequence[tuple[int, int]] = (),
        kept: Iterable[str] | None = None,
    ) -> None:
        """What has run since the last call was a phase of the batch of step `of`, and was to do no more than this.

        kept: the requests whose rows were not masked, None for all. What changed without a launch is the phase's own.
        """
        if not np.array_equal(self._last, self._pages):
            self._waiting.append(_Launched(phase, self._last, self._pages.copy()))
            self._last = self._pages.copy()
        for launched in self._waiting:
            seats, left = self.seats.get(of, ()), None if kept is None else {*kept}
            if left is not None:
                seats = tuple(msgspec.structs.replace(s, masked=s.request not in left) for s in seats)
            meant = copies if launched.name in ("precopy", "postprocess") else ()
            what = Executed(
                launch=launched.name,
                step=during,
                of=of,
                enqueued=self._told.prepared_at(self._rank),
                rows=seats,
                padded=self.padded.get(of, 0) if of == during else 0,
                table=self.gathered,
                meant=moves_of(meant),
                writes=self._writes(launched, ledger, seats, meant, zeroed, pairs),
            )
            if launched.name == "gather":
                self.gathered = during
                what = msgspec.structs.replace(what, table=during)
            self._told.executed(self._rank, what)
        self._waiting.clear()

    def _writes(
        self,
        launched: _Launched,
        ledger: Ledger,
        seats: Sequence[Seat],
        meant: Sequence[StateCopy],
        zeroed: Sequence[int],
        pairs: Sequence[tuple[int, int]],
    ) -> tuple[Write, ...]:
        before, now = launched.before, launched.after
        if before is None or now is None:
            return filled((), zeroed, 0) if launched.name == "zero" else ()
        blocks, reader = changed_blocks(before, now), self._told.reader()
        if launched.name == "zero":
            return filled(blocks, zeroed, 0)
        if launched.name == "copy_blocks":
            return tuple(reader.pages_copied(now, blocks, pairs))
        if launched.name in ("precopy", "postprocess"):
            return tuple(reader.states_copied(before, now, meant, ledger.owners))
        batch = [seat.request for seat in seats] if launched.name == "forward" else []
        return tuple(reader.forwarded(now, blocks, ledger.owners, batch))

    def taken(self, during: int, ledger: Ledger, poisoned: Sequence[int]) -> None:
        """Blocks have changed hands, and recurrent ones among them were poisoned."""
        now = {
            block: tuple(Owner(request=o.request, group=o.group, column=o.column) for o in owners)
            for block, owners in ledger.owners.items()
        }
        changed = sorted(b for b in {*now, *self._owners} if now.get(b) != self._owners.get(b))
        self._owners = now
        self._last = self._pages.copy()
        what = Executed(
            launch="admit",
            step=during,
            of=during,
            enqueued=self._told.prepared_at(self._rank),
            table=self.gathered,
            writes=filled(poisoned, poisoned, POISON),
            owners=tuple(OwnerChange(block=b, owners=now.get(b, ())) for b in changed),
        )
        self._told.executed(self._rank, what)


class Recorder:
    """All events of a run, in the order in which they came about, in virtual time."""

    def __init__(self, schedule: Schedule, planner: Planner) -> None:
        self._schedule, self._planner = schedule, planner
        self._clock = Clock(Costs(), schedule.pipeline.pp, schedule.pipeline.drafts)
        self._events: list[Event] = []
        self._prepared: dict[int, int] = {}
        self._launches: dict[int, list[str]] = {}
        self._reader: tuple[int, Reader] | None = None
        self._inflight = 0

    def reader(self) -> Reader:
        """Reads pages by what is planned so far."""
        planned = len(self._planner.plans)
        if self._reader is None or self._reader[0] != planned:
            self._reader = planned, Reader(self._layout, Decoder(self._planner, self._layout))
        return self._reader[1]

    @property
    def _layout(self) -> Layout:
        return self._schedule.layout

    def prepared_at(self, rank: int) -> int:
        """The number of the event at which the rank's host took its present step, -1 for none."""
        return self._prepared.get(rank, -1)

    def scheduled(self, what: Scheduled, inflight: int) -> None:
        self._inflight = inflight
        self._add("engine", -1, what, self._clock.scheduled(what.step))

    def processed(self, what: Processed, inflight: int) -> None:
        self._inflight = inflight
        self._add("engine", -1, what, self._clock.processed(what.step))

    def prepared(self, rank: int, step: Step) -> None:
        """A rank's host takes a step; what it launches is filled in as it goes."""
        self._add("host", rank, Prepared(step=step.number), self._clock.prepared(rank, step.number))
        self._prepared[rank] = len(self._events)
        self._launches[len(self._events)] = []

    def executed(self, rank: int, what: Executed) -> None:
        if what.enqueued in self._launches:
            self._launches[what.enqueued].append(what.launch)
        side = what.launch == "broadcast"
        self._add("side" if side else "main", rank, what, self._timed(rank, what))

    def _timed(self, rank: int, what: Executed) -> tuple[int, int]:
        clock, step = self._clock, what.step
        match what.launch:
            case "broadcast":
                return clock.broadcast(rank, step)
            case "forward":
                return clock.forward(rank, step, sum(r.num_tokens for r in self._planner.plans[step].step.rows))
            case "sample":
                return clock.sample(rank, step)
            case "precopy" | "postprocess":
                return clock.copies(rank, step, len({m.request for m in what.meant}))
            case "post_update" if what.of != step:
                return clock.launch(rank, step, what.of)
            case _:
                return clock.launch(rank, step)

    def _add(
        self, actor: Literal["engine", "host", "main", "side"], rank: int, what: What, times: tuple[int, int]
    ) -> None:
        start, end = times
        number = len(self._events) + 1
        event = Event(number=number, actor=actor, rank=rank, start=start, end=end, in_flight=self._inflight, what=what)
        self._events.append(event)

    def found(self, violation: Violation, index: int) -> None:
        """Violation number `index` has been found: by the launch that it names, or by whatever its rank did last."""
        at = self._found_by(violation)
        event = self._events[at]
        self._events[at] = msgspec.structs.replace(event, violations=(*event.violations, index))

    def _found_by(self, violation: Violation) -> int:
        mine = [i for i, event in enumerate(self._events) if event.rank == violation.rank]
        for i in reversed(mine):
            what = self._events[i].what
            if isinstance(what, Executed) and what.launch == violation.launch and what.step == violation.during:
                return i
        if violation.rank < 0 and mine:
            return mine[-1]
        what = Executed(launch=violation.launch, step=violation.during, of=violation.step)
        self.executed(max(violation.rank, 0), what)
        return len(self._events) - 1

    def events(self) -> tuple[Event, ...]:
        """Everything, hosts with what they launched."""
        made = []
        for event in self._events:
            if isinstance(event.what, Prepared):
                what = msgspec.structs.replace(event.what, launches=tuple(self._launches[event.number]))
                event = msgspec.structs.replace(event, what=what)
            made.append(event)
        return tuple(made)
