"""The story of a run: who sat in which row, and what every postprocess found, noted while the run goes on.

A `Story` is an observer of the loop. It looks at the operations as the ranks execute them, so it tells the ranks' own
timeline, lag included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.operations import Gather, Operation, Postprocess, Precopy

if TYPE_CHECKING:
    from stalerow.simulator.run.loop import Simulation


@dataclass(slots=True)
class SeenPostprocess:
    """One postprocess launch: for the batch of step `of`, run during `during`, over the table gathered for `gathered`.

    `rows` are the requests of step `of` by row; `kept` those whose output was not masked.
    """

    of: int
    during: int
    gathered: int | None
    rows: tuple[str, ...]
    kept: tuple[str, ...]
    violated: bool = False


@dataclass(slots=True)
class RankStory:
    """rows[step]: requests by batch row; posts[during]: postprocess launches of that step."""

    rows: dict[int, tuple[str, ...]] = field(default_factory=dict)
    posts: dict[int, list[SeenPostprocess]] = field(default_factory=dict)


class Story:
    """Collects `RankStory`s and, if asked, a line per event."""

    def __init__(self, pp: int) -> None:
        self.ranks = [RankStory() for _ in range(pp)]
        self.steps: dict[int, Step] = {}
        self._found = 0

    def __call__(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> None:
        grew = len(simulation.found) > self._found
        self._found = len(simulation.found)
        if isinstance(done, Step):
            self.steps[done.number] = done
        elif done is not None and actor.startswith("device"):
            self._operation(simulation, int(actor[6:]), done, grew)

    def _operation(self, simulation: Simulation, index: int, done: Operation, grew: bool) -> None:
        rank, story = simulation.ranks[index], self.ranks[index]
        if isinstance(done, Gather | Precopy):
            story.rows[done.step] = done.batch.requests
        if isinstance(done, Postprocess):
            output, gathered = done.output, rank.gathered_step
            story.posts.setdefault(done.step, []).append(
                SeenPostprocess(output.of, done.step, gathered, output.requests, output.kept, grew)
            )
