"""A run kept event by event as text: what happened, and tables, slots, rows and blocks as they stood after it.

Made once, walked in either direction. A run that ends in an error is kept up to there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from stalerow.simulator.draw.events import complaint, told
from stalerow.simulator.draw.state import state
from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.operations import Forward, Operation

if TYPE_CHECKING:
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.run.simulation import Observer, Simulation
    from stalerow.simulator.schedule.values import Schedule

    Run = Callable[[Schedule, Observer], Outcome]


class Frame(msgspec.Struct, frozen=True):
    """One event. `parts`: the state after it, the engine first and then a text for each rank.

    ran: the step that every rank has run by then, 0 before the first. violation: whether one was found by it.
    """

    actor: str
    lines: tuple[str, ...]
    parts: tuple[str, ...]
    ran: int
    violation: bool


class Film:
    """An observer that keeps every event. Equal texts are kept once."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._texts: dict[str, str] = {}
        self._found = 0
        self._ran: dict[int, int] = {}

    def __call__(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> None:
        found = simulation.found[self._found :]
        self._found = len(simulation.found)
        # A rank has run a step once its device has done the forward, or any operation of a later step.
        if isinstance(done, Operation) and actor.startswith("device"):
            rank = int(actor.removeprefix("device"))
            step = done.step if isinstance(done, Forward) else done.step - 1
            self._ran[rank] = max(step, self._ran.get(rank, 0))
        said = told(actor, done) or [f"{actor:<10}{'takes its next step' if actor.startswith('host') else 'waits'}"]
        self.frames.append(
            Frame(
                actor,
                (*said, *map(complaint, found)),
                tuple(self._texts.setdefault(text, text) for text in state(simulation)),
                min((self._ran.get(rank.index, 0) for rank in simulation.ranks), default=0),
                bool(found),
            )
        )


def filmed(run: Run, schedule: Schedule) -> tuple[list[Frame], Outcome | None, Exception | None]:
    """Every event of a run, and its outcome or the error that ended it."""
    film = Film()
    try:
        return film.frames, run(schedule, film), None
    except Exception as error:
        # Shown up to here, then raised again by who asked for it: what led to an error is what one wants to see.
        return film.frames, None, error
