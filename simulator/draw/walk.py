"""Walks a run: to a step, or event by event, with tables, slots, rows and blocks as they stand.

An observer of the loop that prints, asks, and ends the run when it has seen enough. Steps count as in the events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from stalerow.simulator.draw.events import EventPrinter
from stalerow.simulator.draw.state import state
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.rank.operations import Forward, Operation
from stalerow.simulator.run.subject import Subject

if TYPE_CHECKING:
    from stalerow.simulator.run.loop import Simulation
    from stalerow.simulator.schedule.values import Schedule


class _Enough(Exception):
    """Ends the run from inside the observer."""


class _Walk:
    def __init__(self, out: Console, until: int | None, ask: Callable[[str], str] | None, events: bool) -> None:
        self._out, self._ask, self._events, self._until = out, ask, events, until
        self._walking = until is None
        self._printer = EventPrinter(out)
        self._begun: set[int] = set()
        self.simulation: Simulation | None = None
        self.number = 0
        self._shown: list[str] = []

    def __call__(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> None:
        self.simulation = simulation
        self.number += 1
        if not self._walking:
            if not self._reached(simulation, actor, done):
                return
            self._out.print(f"after event {self.number} ({actor}): every rank has run step {self._until}")
            self._show(simulation)
            if not self._events:
                raise _Enough
            self._walking = True
            return
        if self._ask is None:
            self._out.print(f"[{self.number}] {actor}{f', {done.kind}' if isinstance(done, Operation) else ''}")
        self._printer(simulation, actor, done)
        if self._ask is None:
            self._show(simulation, changed=True)
            return
        while (answer := self._ask(f"[{self.number}] ").strip()) == "s":
            self._show(simulation)
        if answer == "q":
            raise _Enough

    def _reached(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> bool:
        """A rank has run a step once its device has done the forward, or any operation of a later step."""
        assert self._until is not None
        if isinstance(done, Operation) and actor.startswith("device"):
            past = done.step > self._until or (done.step == self._until and isinstance(done, Forward))
            if past:
                self._begun.add(int(actor[6:]))
        return len(self._begun) == len(simulation.ranks)

    def _show(self, simulation: Simulation, changed: bool = False) -> None:
        """Print the state, or only those parts of it that have changed since it was printed last."""
        before, self._shown = self._shown, state(simulation)
        for part in self._shown:
            if not changed or part not in before:
                self._out.print(part, markup=False, soft_wrap=True)
        for violation in () if changed else simulation.found:
            self._out.print(f"!! {violation.kind}: {violation.explanation}", markup=False, soft_wrap=True)


def walk(
    subject: Subject,
    schedule: Schedule,
    out: Console,
    *,
    until: int | None = None,
    ask: Callable[[str], str] | None = None,
    events: bool = False,
) -> None:
    """Run to step `until` (None: from the start) and show the state; with `events`, go on event by event.

    `ask` prompts for what to do next; None prints the state after every event.
    """
    watcher = _Walk(out, until, ask, events)
    try:
        outcome = subject.run(schedule, observer=watcher)
    except _Enough:
        return
    if until is not None and outcome.steps < until:
        out.print(f"the run ended after step {outcome.steps}, before step {until}: this is its last state")
        if watcher.simulation is not None:
            out.print("\n".join(state(watcher.simulation)), markup=False, soft_wrap=True)
    out.print(
        f"end of run: {outcome.steps} steps, {counted(len(outcome.violations), 'violation')}, digest {outcome.digest}"
    )
