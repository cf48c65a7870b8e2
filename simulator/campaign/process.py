"""One worker process: given a task at a time, and asked what became of it, whatever that did to the process."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from stalerow.simulator.errors import InternalError, UsageError

GRACE_S = 2.0
STACK_SIGNAL = signal.SIGUSR1
_LIBRARY = re.compile(r"/(site-packages|lib/python[\d.]+)/(?!stalerow/)|<frozen|<string>")


@dataclass(frozen=True, slots=True)
class Done:
    """How a task ended: `value`, or `error` (an exception that it raised), or `died` (how its process ended), or `hung`
    (where it was when its time was up)."""

    ticket: int
    task: Any
    value: Any = None
    error: BaseException | None = None
    trace: str = ""
    died: str = ""
    hung: str = ""


BEGUN = "begun"
"""What a process sends first, once it has the task: what comes before is its own start, which nobody is blamed for."""


class Worker:
    """One process and the task it is at. `began`: when the process had the task, None until then."""

    def __init__(self, work: Callable[[Any], Any], note: Path | None) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.note = note
        self.stack = _scratch()
        self.process = context.Process(target=_serve, args=(work, other, note, self.stack), daemon=True)
        with _uninterrupted():
            self.process.start()
        other.close()
        self.at: tuple[int, Any] | None = None
        self.began: float | None = None

    def give(self, ticket: int, task: Any) -> bool:
        """Start a task; False if the process is dead already."""
        try:
            self.pipe.send(task)
        except (BrokenPipeError, OSError):
            return False
        self.at, self.began = (ticket, task), None
        return True

    def take(self) -> Done | None:
        """What became of the task, None if it has only begun; call it when the pipe is readable."""
        assert self.at is not None
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            at, self.at = self.at, None
            self.process.join(GRACE_S)
            return Done(*at, died=how_it_ended(self.process.exitcode))
        if answer == BEGUN:
            self.began = time.monotonic()
            return None
        at, self.at = self.at, None
        return Done(*at, *answer)

    def late(self, limit: float | None) -> bool:
        """Whether the process has had the task for `limit` seconds."""
        return limit is not None and self.began is not None and time.monotonic() - self.began >= limit

    def where(self) -> str:
        """What the process is executing, as file and line, innermost first, as far as it can be told."""
        if self.stack is None or self.process.pid is None:
            return ""
        with contextlib.suppress(OSError):
            os.kill(self.process.pid, STACK_SIGNAL)
            deadline = time.monotonic() + GRACE_S
            while not self.stack.stat().st_size and time.monotonic() < deadline:
                time.sleep(0.02)
            return _innermost(self.stack.read_text(errors="replace"))
        return ""

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self.process.terminate()
        self.process.join(GRACE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        if self.stack is not None:
            self.stack.unlink(missing_ok=True)
        if self.note is not None:
            self.note.unlink(missing_ok=True)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: a process that is started now is born deaf to it, and stays so until it ignores it for good."""
    resource_tracker.getfd()  # started by the first process otherwise, which would end the waiting
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(work: Callable[[Any], Any], pipe: Connection, note: Path | None, stack: Path | None) -> None:
    """The worker's loop; ends when the parent's end of the pipe is gone. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    with contextlib.suppress(OSError):
        if stack is not None:
            faulthandler.register(STACK_SIGNAL, stack.open("w"), all_threads=False)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        if note is not None:
            with contextlib.suppress(OSError):  # a full disk costs the note, not the run
                note.write_text(f"{task}\n")
        try:
            pipe.send(BEGUN)
            pipe.send(attempt(work, task))
        except (BrokenPipeError, OSError):
            return


def _end_with_parent() -> None:
    """A parent that was killed leaves no worker behind, even one in the middle of a long task."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def attempt(work: Callable[[Any], Any], task: Any) -> tuple[Any, BaseException | None, str]:
    try:
        return work(task), None, ""
    except Exception as error:
        shown = error if isinstance(error, (UsageError, InternalError)) else InternalError(repr(error))
        return None, _portable(shown), traceback.format_exc()
    finally:
        sys.stdout.flush()


def _scratch() -> Path | None:
    """A file for a worker to write its stack to; None where there is no room for one."""
    try:
        handle, name = tempfile.mkstemp(prefix="stalerow-", suffix=".stack")
    except OSError:
        return None
    os.close(handle)
    return Path(name)


def _innermost(stack: str) -> str:
    """'mamba_utils.py:459' of a stack as `faulthandler` writes it, leaving libraries' frames out."""
    frames = re.findall(r'File "(.*?)", line (\d+) in', stack)
    own = [(file, line) for file, line in frames if not _LIBRARY.search(file)]
    return next((f"{Path(file).name}:{line}" for file, line in own or frames), "")


def _portable(error: BaseException) -> BaseException:
    """The error without what may not survive a pickle: its causes and its traceback."""
    return type(error)(str(error))


def how_it_ended(code: int | None) -> str:
    if code is None:
        return "closed its pipe"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
