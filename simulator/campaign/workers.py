"""Worker processes that may die or hang: each task is written down before it starts, and costs itself only.

In: picklable tasks and an importable function. Out: a `Done` for each task, as they end: its value, the error it
raised, how its process died, or where it was when its time was up. Whoever takes a process down from outside (an
out-of-memory killer, an operator) is not the task's fault: a task is given to a fresh process once more before it is
blamed. Triton's interpreter is not thread-safe and a wild copy can kill a process, so parallelism is by process.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from stalerow.simulator.campaign.process import Done, Worker, how_it_ended
from stalerow.simulator.errors import InternalError

TICK_S = 0.25
STARTS_WITHOUT_A_RESULT = 3
ATTEMPTS = 2
"""How often a task may take its process down, or not return, before it is blamed."""


class Workers:
    """At most `jobs` worker processes, each started when there is a task for it. Use as a context manager; leaving it
    ends them at once.

    `notes` is a folder where each worker keeps a file that names the task it is at, for the case that this process is
    killed too. `limit_s`: seconds that a task may take, unless it says so itself (in its own `limit_s`).
    """

    def __init__(
        self, jobs: int, work: Callable[[Any], Any], notes: Path | None = None, limit_s: float | None = None
    ) -> None:
        self._work, self._notes, self._limit_s = work, notes, limit_s
        self._failed: dict[int, int] = {}
        self._repeated: list[str] = []
        if notes is not None:
            notes.mkdir(parents=True, exist_ok=True)
        self._jobs = jobs
        self._workers: list[Worker] = []
        self._waiting: deque[tuple[int, Any]] = deque()
        self._tickets = 0
        self._early_deaths = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._workers:
            worker.stop()

    @property
    def running(self) -> int:
        """Tasks that have been given and not taken back."""
        return len(self._waiting) + sum(w.at is not None for w in self._workers)

    @property
    def idle(self) -> int:
        """How many more tasks would start at once."""
        return max(self._jobs - self.running, 0)

    def submit(self, task: Any) -> int:
        """Queue a task; it starts as soon as a worker is free. Returns the ticket that its `Done` will carry."""
        self._tickets += 1
        self._waiting.append((self._tickets, task))
        self._assign()
        return self._tickets

    def wait(self, timeout: float | None = None) -> list[Done]:
        """Tasks that have ended, waiting for the first of them at most `timeout` seconds, for ever without it."""
        done = self._ended(timeout)
        while timeout is None and not done and self.running:
            done = self._ended(None)
        return done

    def _ended(self, timeout: float | None) -> list[Done]:
        """One look at what the processes have sent."""
        self._assign()
        busy = {w.pipe: w for w in self._workers if w.at is not None}
        done = []
        for ready in connection.wait(list(busy), self._patience(timeout)) if busy else ():
            assert isinstance(ready, Connection)
            worker = busy.pop(ready)
            result = worker.take()
            if result is None:
                continue
            if result.died:
                self._replace(worker)
            if not (result.died and self._once_more(result)):
                done.append(result)
        late = (self._overdue(worker) for worker in busy.values())
        done += [result for result in late if result is not None and not self._once_more(result)]
        self._assign()
        return done

    def _patience(self, timeout: float | None) -> float | None:
        """How long to wait at most: limits are looked at every `TICK_S`."""
        limited = any(w.at is not None and self._limit(w.at[1]) is not None for w in self._workers)
        return min(timeout, TICK_S) if limited and timeout is not None else TICK_S if limited else timeout

    def _limit(self, task: Any) -> float | None:
        own: float | None = getattr(task, "limit_s", None)
        return self._limit_s if own is None else own

    def _overdue(self, worker: Worker) -> Done | None:
        """Ends a task whose time is up."""
        assert worker.at is not None
        limit = self._limit(worker.at[1])
        if limit is None or not worker.late(limit):
            return None
        where = worker.where()
        at, worker.at = worker.at, None
        self._replace(worker)
        return Done(*at, hung=f"did not return within {limit:g} s{f'; it was at {where}' if where else ''}")

    def _once_more(self, done: Done) -> bool:
        """Whether the task gets another, fresh process."""
        self._failed[done.ticket] = self._failed.get(done.ticket, 0) + 1
        if self._failed[done.ticket] >= ATTEMPTS:
            del self._failed[done.ticket]
            return False
        self._waiting.appendleft((done.ticket, done.task))
        self._repeated.append(f"{done.task} ran again: its process was lost ({done.died or done.hung})")
        return True

    def repeated(self) -> list[str]:
        """Tasks that were started a second time since last asked, and why, a sentence each."""
        told, self._repeated = self._repeated, []
        return told

    def map(self, tasks: Iterator[Any], meanwhile: Callable[[], None] | None = None) -> Iterator[Done]:
        """Every task's result in the order of the tasks, never more in flight than there are workers.

        `meanwhile` is called about every `TICK_S` seconds of waiting; what it raises ends the iteration.
        """
        order: deque[int] = deque()
        ended: dict[int, Done] = {}
        left = True
        while left or order:
            while left and self.idle:
                task = next(tasks, None)
                left = task is not None
                if left:
                    order.append(self.submit(task))
            if order and order[0] not in ended:
                ended |= {done.ticket: done for done in self.wait(TICK_S if meanwhile else None)}
                if meanwhile:
                    meanwhile()
            while order and order[0] in ended:
                yield ended.pop(order.popleft())

    def _start(self, index: int) -> Worker:
        note = None if self._notes is None else self._notes / f"{os.getpid()}-{index}.txt"
        return Worker(self._work, note)

    def _assign(self) -> None:
        free = sum(worker.at is None for worker in self._workers)
        for _ in range(min(len(self._waiting) - free, self._jobs - len(self._workers))):
            self._workers.append(self._start(len(self._workers)))
        for worker in self._workers:
            while self._waiting and worker.at is None:
                if worker.give(*self._waiting[0]):
                    self._waiting.popleft()
                    self._early_deaths = 0
                    break
                self._early_deaths += 1
                if self._early_deaths > STARTS_WITHOUT_A_RESULT:
                    how = how_it_ended(worker.process.exitcode)
                    raise InternalError(f"worker processes die before they take a task ({how})")
                worker = self._replace(worker)

    def _replace(self, worker: Worker) -> Worker:
        index = self._workers.index(worker)
        worker.stop()
        self._workers[index] = self._start(index)
        return self._workers[index]


def abandoned(notes: Path) -> list[tuple[Path, str]]:
    """Tasks that were under way in processes that have been killed together with their parent."""
    found = []
    for path in sorted(notes.glob("*.txt")):
        if not alive(int(path.stem.split("-")[0])):
            with contextlib.suppress(OSError):
                found.append((path, path.read_text()))
    return found


def alive(pid: int) -> bool:
    """Whether a process of that number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
