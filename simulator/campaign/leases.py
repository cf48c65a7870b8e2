"""Tasks that go out several at a time, for executors where giving one out costs more than running it.

Whoever submits and waits sees single tasks. A lease whose process is lost is given out again task by task, which is
said, so that the task to blame is found and the others are not lost with it.
"""

from __future__ import annotations

import faulthandler
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import msgspec

from stalerow.simulator.campaign.executors import Executor
from stalerow.simulator.campaign.process import Done, attempt


class Lease(msgspec.Struct, frozen=True):
    """Tasks of one kind, in order, and what does one of them."""

    work: Callable[[Any], Any]
    tasks: tuple[Any, ...]

    @property
    def limit_s(self) -> float | None:
        """Seconds that the tasks may take; None if one may take any."""
        limits = [limit for task in self.tasks if (limit := getattr(task, "limit_s", None)) is not None]
        return sum(limits) if len(limits) == len(self.tasks) else None

    def __str__(self) -> str:
        return str(self.tasks[0]) if len(self.tasks) == 1 else f"{len(self.tasks)} tasks from {self.tasks[0]} on"


def do(lease: Lease) -> list[tuple[Any, BaseException | None, str]]:
    """What workers run: (value, error, traceback) of every task, each within its own time."""
    return [guarded(lease.work, task) for task in lease.tasks]


def guarded(work: Callable[[Any], Any], task: Any) -> tuple[Any, BaseException | None, str]:
    """`attempt`, but a task that does not return within its `limit_s` ends its process, wherever it hangs."""
    limit = getattr(task, "limit_s", None)
    if limit is None:
        return attempt(work, task)
    faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        return attempt(work, task)
    finally:
        faulthandler.cancel_dump_traceback_later()


class _Waiting(NamedTuple):
    ticket: int
    task: Any


class Leases:
    """An executor of single tasks over one of leases, whose work is `do`. Up to `size` tasks of type `kind`, which take
    about as long as each other, go out together, and others alone."""

    def __init__(self, executor: Executor, work: Callable[[Any], Any], kind: type, size: int) -> None:
        self._executor, self._work, self._kind, self._size = executor, work, kind, size
        self._buffer: deque[_Waiting] = deque()
        self._out: dict[int, tuple[_Waiting, ...]] = {}
        self._tickets = 0
        self._repeated: list[str] = []

    def __enter__(self) -> Self:
        self._executor.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._executor.__exit__(*exc)

    @property
    def running(self) -> int:
        return len(self._buffer) + sum(map(len, self._out.values()))

    @property
    def idle(self) -> int:
        return max(self._executor.idle * self._size - len(self._buffer), 0)

    def submit(self, task: Any) -> int:
        self._tickets += 1
        waiting = _Waiting(self._tickets, task)
        if not isinstance(task, self._kind):
            self._out[self._executor.submit(Lease(self._work, (task,)))] = (waiting,)
            return self._tickets
        self._buffer.append(waiting)
        if len(self._buffer) >= self._size:
            self._give()
        return self._tickets

    def _give(self, size: int | None = None) -> None:
        """Send what waits, in leases."""
        size = size or self._size
        while self._buffer:
            some = tuple(self._buffer.popleft() for _ in range(min(size, len(self._buffer))))
            self._out[self._executor.submit(Lease(self._work, tuple(w.task for w in some)))] = some

    def wait(self, timeout: float | None = None) -> list[Done]:
        self._give()
        return [done for ended in self._executor.wait(timeout) for done in self._each(ended)]

    def _each(self, ended: Done) -> list[Done]:
        """The ends of a lease's tasks."""
        some = self._out.pop(ended.ticket)
        lost = ended.died or ended.hung
        if lost and len(some) > 1:
            self._repeated.append(f"{ended.task} ran again one by one: the process {lost}")
            self._buffer.extend(some)
            self._give(1)
            return []
        if lost or ended.error is not None:
            return [Done(w.ticket, w.task, None, ended.error, ended.trace, ended.died, ended.hung) for w in some]
        return [Done(w.ticket, w.task, *result) for w, result in zip(some, ended.value, strict=True)]

    def repeated(self) -> list[str]:
        told, self._repeated = [*self._repeated, *self._executor.repeated()], []
        return told
