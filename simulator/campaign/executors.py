"""Where tasks run: the one seam between whoever gives out tasks (`fuzz`, `explore`) and processes, here or elsewhere.

`workers.Workers` is the process pool of one machine, `clusters.RayCluster` runs on many, `InProcess` runs a task where
it is asked for. All take picklable tasks and give back one `Done` for each; none starts a task a second time without
saying so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, Self

from stalerow.simulator.campaign.process import Done


class Executor(Protocol):
    """Tasks go in, results come out in any order. Leaving the context ends whatever still runs."""

    @property
    def running(self) -> int:
        """Tasks that have been given and not taken back."""
        ...

    @property
    def idle(self) -> int:
        """How many more tasks would start at once."""
        ...

    def submit(self, task: Any) -> int:
        """Queue a task. Returns the ticket that its `Done` will carry."""
        ...

    def wait(self, timeout: float | None = None) -> list[Done]:
        """Tasks that have ended, waiting for the first of them at most `timeout` seconds."""
        ...

    def repeated(self) -> list[str]:
        """What was started a second time since last asked, and why, a sentence each."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class InProcess:
    """Runs each task in this process when its result is asked for; what it raises is raised here."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work
        self._waiting: deque[tuple[int, Any]] = deque()
        self._tickets = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._waiting.clear()

    @property
    def running(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> int:
        return 1 - min(len(self._waiting), 1)

    def repeated(self) -> list[str]:
        return []

    def submit(self, task: Any) -> int:
        self._tickets += 1
        self._waiting.append((self._tickets, task))
        return self._tickets

    def wait(self, timeout: float | None = None) -> list[Done]:
        if not self._waiting:
            return []
        ticket, task = self._waiting.popleft()
        return [Done(ticket, task, self._work(task))]
