"""The engine core's busy loop: schedule while there is room, else wait for the oldest step (vLLM 0.32).

An iteration adds arrivals, schedules once if there is anything to schedule, and ends there if the FIFO still has room
and work; otherwise it waits for the oldest step's output, which makes that step `awaited`, and processes it. Who asks
for requests and answers them is a `Client`: a schedule's arrivals in one kind of run, a serving benchmark in another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.interface import Engine
from stalerow.simulator.engine.step import Step


class Client(Protocol):
    """What the loop needs of a run."""

    def arrive(self, loop: EngineLoop) -> None:
        """Add the requests that have arrived by now to the engine."""
        ...

    def before_schedule(self, loop: EngineLoop) -> None:
        """The engine is about to schedule: step `loop.steps + 1`."""
        ...

    def scheduled(self, loop: EngineLoop, step: Step) -> None:
        """The step goes to the ranks."""
        ...

    def before_process(self, loop: EngineLoop, step: Step) -> None:
        """The step's output has come and is about to be processed."""
        ...

    def sampled(self, step: Step) -> Mapping[str, Sequence[int]]:
        """Token ids that the step sampled, by request."""
        ...

    def delivered(self, loop: EngineLoop, step: Step, delivered: Delivered) -> None:
        """What processing the step's output brought."""
        ...


class EngineLoop:
    """`iteration`, `steps`: how often the loop went round and scheduled; `stopped`: why it ended early, "" if not."""

    def __init__(self, core: Engine, client: Client) -> None:
        self.core, self._client = core, client
        self.iteration = 0
        self.steps = 0
        self.stopped = ""
        self.awaited: Step | None = None

    @property
    def busy(self) -> bool:
        """Whether the engine has something to do without anybody arriving."""
        return bool(self.core.has_requests or self.core.inflight)

    def act(self) -> Step | None:
        """One iteration, or the awaited output's processing. Returns the step that was scheduled, if one was."""
        if self.awaited is not None:
            self._process()
            return None
        self.iteration += 1
        self._client.arrive(self)
        if not self.core.has_requests:
            self._await_oldest()
            return None
        self._client.before_schedule(self)
        step = self.core.schedule()
        self.steps += 1
        self._client.scheduled(self, step)
        if not (self.core.can_schedule and (step.rows or self.core.has_requests)):
            self._await_oldest()
        return step

    def _await_oldest(self) -> None:
        steps = self.core.inflight_steps
        self.awaited = steps[0] if steps else None

    def _process(self) -> None:
        assert self.awaited is not None
        self._client.before_process(self, self.awaited)
        step = self.core.inflight_steps[0]
        delivered = self.core.process(self._client.sampled(step))
        self.awaited = None
        self._client.delivered(self, step, delivered)
