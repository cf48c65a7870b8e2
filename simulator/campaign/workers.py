"""Worker processes that may die: each task is written down before it starts, and a death costs that task only.

In: picklable tasks and an importable function. Out: a `Done` for each task, as they end: its value, the error it
raised, or how its process died. A worker that died is replaced. Used by `fuzz`; Triton's interpreter is not thread-safe
and a wild copy can kill a process, so parallelism is by process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from stalerow.simulator.errors import InternalError, UsageError

GRACE_S = 2.0
TICK_S = 0.25
STARTS_WITHOUT_A_RESULT = 3


@dataclass(frozen=True, slots=True)
class Done:
    """How a task ended: `value`, or `error` (an exception that it raised), or `died` (how its process ended)."""

    ticket: int
    task: Any
    value: Any = None
    error: BaseException | None = None
    trace: str = ""
    died: str = ""


class Worker:
    """One process and the task it is at."""

    def __init__(self, work: Callable[[Any], Any], note: Path | None) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.note = note
        self.process = context.Process(target=_serve, args=(work, other, note), daemon=True)
        self.process.start()
        other.close()
        self.at: tuple[int, Any] | None = None

    def give(self, ticket: int, task: Any) -> bool:
        """Start a task; False if the process is dead already."""
        try:
            self.pipe.send(task)
        except (BrokenPipeError, OSError):
            return False
        self.at = ticket, task
        return True

    def take(self) -> Done:
        """What became of the task; call it when the pipe is readable."""
        assert self.at is not None
        at, self.at = self.at, None
        try:
            value, error, trace = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(GRACE_S)
            return Done(*at, died=_how(self.process.exitcode))
        return Done(*at, value, error, trace)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self.process.terminate()
        self.process.join(GRACE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        if self.note is not None:
            self.note.unlink(missing_ok=True)


class Workers:
    """A fixed number of worker processes. Use as a context manager; leaving it ends them at once.

    `notes` is a folder where each worker keeps a file that names the task it is at, for the case that this process is
    killed too.
    """

    def __init__(self, jobs: int, work: Callable[[Any], Any], notes: Path | None = None) -> None:
        self._work, self._notes = work, notes
        if notes is not None:
            notes.mkdir(parents=True, exist_ok=True)
        self._workers = [self._start(i) for i in range(jobs)]
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
        return max(len(self._workers) - self.running, 0)

    def submit(self, task: Any) -> int:
        """Queue a task; it starts as soon as a worker is free. Returns the ticket that its `Done` will carry."""
        self._tickets += 1
        self._waiting.append((self._tickets, task))
        self._assign()
        return self._tickets

    def wait(self, timeout: float | None = None) -> list[Done]:
        """Tasks that have ended, waiting for the first of them at most `timeout` seconds."""
        self._assign()
        busy = {w.pipe: w for w in self._workers if w.at is not None}
        done = []
        for ready in connection.wait(list(busy), timeout) if busy else ():
            assert isinstance(ready, Connection)
            worker = busy[ready]
            result = worker.take()
            done.append(result)
            if result.died:
                self._replace(worker)
        self._assign()
        return done

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
        for worker in self._workers:
            while self._waiting and worker.at is None:
                if worker.give(*self._waiting[0]):
                    self._waiting.popleft()
                    self._early_deaths = 0
                    break
                self._early_deaths += 1
                if self._early_deaths > STARTS_WITHOUT_A_RESULT:
                    how = _how(worker.process.exitcode)
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


def _serve(work: Callable[[Any], Any], pipe: Connection, note: Path | None) -> None:
    """The worker's loop; ends when the parent's end of the pipe is gone. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        if note is not None:
            note.write_text(f"{task}\n")
        answer = _attempt(work, task)
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            return


def _end_with_parent() -> None:
    """A parent that was killed leaves no worker behind, even one in the middle of a long task."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _attempt(work: Callable[[Any], Any], task: Any) -> tuple[Any, BaseException | None, str]:
    try:
        return work(task), None, ""
    except Exception as error:
        shown = error if isinstance(error, (UsageError, InternalError)) else InternalError(repr(error))
        return None, _portable(shown), traceback.format_exc()
    finally:
        sys.stdout.flush()


def _portable(error: BaseException) -> BaseException:
    """The error without what may not survive a pickle: its causes and its traceback."""
    return type(error)(str(error))


def _how(code: int | None) -> str:
    if code is None:
        return "closed its pipe"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
