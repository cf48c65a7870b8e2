"""The engine's own scheduler in this process, as an `Engine` for the loop; what it schedules goes to workers as it is.

`conform.engine` speaks to a scheduler in a child process in messages; here the same messages are calls, and what comes
back to the scheduler after a step is the last worker's own output.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from stalerow.simulator.conform.engine import ReleasedEngine
from stalerow.simulator.engine.config import EngineConfig


class LocalScheduler:
    """Answers `ReleasedEngine`. `message`: the last schedule as workers get it; `output`: what `process` takes."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.message = b""
        self.output: Any = None
        self._calls: dict[str, Callable[[Any], dict[str, Any]]] = {
            "add": session.add_request,
            "abort": session.abort_requests,
            "reset": session.reset,
            "schedule": self._schedule,
            "process": self._process,
        }

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        ((name, argument),) = message.items()
        return {**self._calls[name](argument), "has_requests": self.session.scheduler.has_requests()}

    def _schedule(self, _: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.session.schedule_step(None)
        self.message = pickle.dumps(self.session.queue[-1][0])
        return answer

    def _process(self, _: Any) -> dict[str, Any]:
        session = self.session
        before = session.block_lists()
        scheduled, _, _ = session.queue.popleft()
        produced = session.scheduler.update_from_output(scheduled, self.output)
        session.note_hashes(before)
        delivered = {
            item.request_id: (len(item.new_token_ids), None if item.finish_reason is None else str(item.finish_reason))
            for group in produced.values()
            for item in group.outputs
        }
        return {"delivered": delivered, "ignored": []}


def engine_of(scheduler: LocalScheduler, config: EngineConfig) -> ReleasedEngine:
    return ReleasedEngine(scheduler, config)  # type: ignore[arg-type]
