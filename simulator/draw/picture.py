"""The drawing of a failure, however it is run: a schedule, a way to run it, 100 x 40 characters of plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stalerow.simulator.run.loop import Observer
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.schedule.values import Schedule

WIDTH, HEIGHT = 100, 40


class Runner(Protocol):
    def __call__(self, schedule: Schedule, observer: Observer | None = None) -> Outcome: ...


def picture(schedule: Schedule, run: Runner, kernels: str) -> str:
    """Run the schedule with `run` and draw its first violation."""
    from stalerow.simulator.draw.story import Story
    from stalerow.simulator.draw.timeline import failure, text

    story = Story(schedule.pipeline.pp)
    outcome = run(schedule, story)
    if not outcome.violations:
        return f"no violation: {kernels} ran {outcome.steps} steps clean"
    return text(failure(schedule, kernels, outcome.violations[0], story, HEIGHT), WIDTH)
