"""Every order of events of one schedule, depth first, by running it again for each.

A search keeps the path of decisions of the current run. Each decision remembers who has been tried there and who is
asleep: actors whose next event, let go first, would only lead to an order that another branch has (sleep sets,
Godefroid 1996). States that were reached before with no fewer actors awake are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stalerow.simulator.explore.reduction import shared_by, sufficient
from stalerow.simulator.explore.states import StateTracker
from stalerow.simulator.faults.hooks import together
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.outcome import FaultUse
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers import Pending
from stalerow.simulator.schedule.choosers.recording import Decision, deviations
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject


class Reduction(msgspec.Struct, frozen=True):
    """Which cuts are made: `commuting` events (persistent and sleep sets), and `states` that were seen before."""

    commuting: bool = True
    states: bool = True


class Branch(msgspec.Struct):
    """One decision of the current path, by names of actors: the one chosen, those still to be tried, those tried before
    and those asleep."""

    chosen: str
    todo: list[str]
    tried: list[str]
    asleep: list[str]


class Counts(msgspec.Struct):
    """Runs, of which `orders` went to the end; decisions visited; and what was cut: runs at a state seen before, runs
    with everybody asleep, and choices that only reorder commuting events."""

    runs: int = 0
    orders: int = 0
    decisions: int = 0
    cut_states: int = 0
    cut_asleep: int = 0
    cut_commuting: int = 0

    def add(self, other: Counts) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class Found:
    """A violation, and the order in which it was met first; `first` if nothing had gone wrong before in that run."""

    violation: Violation
    order: Order
    first: bool


@dataclass
class OrderSearch:
    """Call `runs` for the search; between two of them `path`, `counts`, `found` and `visited` (by state the sets of
    actors that were asleep there) may be kept and given back to a new search to go on."""

    schedule: Schedule
    subject: Subject
    reduction: Reduction = field(default_factory=Reduction)
    path: list[Branch] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    found: dict[tuple[object, ...], Found] = field(default_factory=dict)
    visited: dict[int, list[frozenset[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.uses: tuple[FaultUse, ...] = ()
        self._shared = shared_by(self.subject, self.schedule.pipeline.runner)
        self.forked = any(branch.todo or branch.tried for branch in self.path)
        self.simulation: Simulation | None = None

    def runs(self) -> Iterator[Simulation]:
        """Run every order that is left; after each, its simulation."""
        more = not self.path or self._next_branch()
        while more:
            yield self._run()
            more = self._next_branch()

    def _next_branch(self) -> bool:
        """Move on to the next untried choice of the deepest decision that has one; False if there is none."""
        while self.path:
            last = self.path[-1]
            if last.todo:
                last.tried.append(last.chosen)
                last.chosen = last.todo.pop(0)
                return True
            self.path.pop()
        return False

    def _run(self) -> Simulation:
        run = _Run(self)
        self.counts.runs += 1
        try:
            outcome = self.subject.run(self.schedule, observer=run.saw, order=run)
            self.counts.orders += 1
            self.uses = together((*self.uses, *outcome.faults))
        except _Cut:
            pass
        assert run.simulation is not None
        for i, violation in enumerate(run.simulation.found):
            known = self.found.get(violation.identity())
            if known is None or (not i and not known.first):
                self.found[violation.identity()] = Found(violation, deviations(run.decisions), not i)
        return run.simulation

    def seen(self, state: int, asleep: frozenset[str]) -> bool:
        """Whether everything that is awake in a state was tried from it before; notes it if not."""
        before = self.visited.setdefault(state, [])
        if any(earlier <= asleep for earlier in before):
            return True
        before.append(asleep)
        return False

    def lengthen(self, branch: Branch) -> None:
        """Add the current run's next decision to the path."""
        self.counts.decisions += 1
        self.forked = self.forked or bool(branch.todo)
        self.path.append(branch)

    @property
    def shared(self) -> Any:
        return self._shared


class _Cut(Exception):
    """Ends a run from whose state on nothing new can come."""


class _Run:
    """The chooser of one run: follows the search's path, then lengthens it."""

    def __init__(self, search: OrderSearch) -> None:
        self._search = search
        self._depth = 0
        self._sleeping: set[str] = set()
        self._asked = False
        self._states = StateTracker()
        self.decisions: list[Decision] = []
        self.simulation: Simulation | None = None

    def saw(self, simulation: Simulation, actor: str, done: Any) -> None:
        """After every event; one that was no decision had no other beside it."""
        self.simulation = simulation
        self._states.saw(actor)
        if not self._asked:
            # Sleeping actors stay enabled until they wake, so the only one enabled is the only one that can sleep.
            if actor in self._sleeping:
                self._search.counts.cut_asleep += 1
                raise _Cut
            self._sleeping = set()
        self._asked = False

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        search, self._asked = self._search, True
        if self._depth == len(search.path):
            self._lengthen(enabled)
        branch = search.path[self._depth]
        self._depth += 1
        resting = {*branch.asleep, *branch.tried} if search.reduction.commuting else ()
        if resting:
            happens = pending(branch.chosen)
            self._sleeping = {a for a in resting if not pending(a).conflicts(happens)}
        else:
            self._sleeping = set()
        choice = enabled.index(branch.chosen)
        self.decisions.append(Decision(tuple(enabled), choice))
        return choice

    def _lengthen(self, enabled: Sequence[str]) -> None:
        search, simulation = self._search, self.simulation
        asleep = frozenset(self._sleeping)
        options = list(enabled)
        if simulation is not None:
            states = search.reduction.states and self._states.comparable(search.shared)
            # Before the first decision that leaves something to try no two runs differ.
            if states and search.forked and search.seen(self._states.fingerprint(simulation), asleep):
                search.counts.cut_states += 1
                raise _Cut
            if search.reduction.commuting:
                options = list(sufficient(simulation, enabled, search.shared))
        awake = [actor for actor in options if actor not in asleep]
        search.counts.cut_commuting += len(enabled) - len(awake)
        if not awake:
            search.counts.cut_asleep += 1
            raise _Cut
        search.lengthen(Branch(awake[0], awake[1:], [], sorted(asleep)))
