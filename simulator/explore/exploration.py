"""A search over an executor: leases go out, results come back in any order, the file follows.

A lease whose process died is halved, so that the workload that kills it is found; the rest of it is not lost.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from stalerow.simulator.campaign.executors import Executor
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.workers import TICK_S
from stalerow.simulator.explore.progress import Progress, save
from stalerow.simulator.explore.search import Lease

LEASE = 8
"""Workloads in a lease: seconds of work, so that little is done again after an interruption."""
SAVE_S = 5.0


class Listener(Protocol):
    """Who is told as things happen."""

    def tick(self, progress: Progress) -> None: ...
    def died(self, lease: Lease, how: str) -> None: ...
    def note(self, text: str) -> None: ...


class Exploration:
    """Runs what is left of `progress` on an executor and keeps `path` up to date. `deaths` are workloads whose process
    died at every attempt."""

    def __init__(
        self,
        progress: Progress,
        path: Path,
        executor: Callable[[], Executor],
        listener: Listener,
        seconds: float | None = None,
        keep_going: bool = False,
    ) -> None:
        self.progress, self.path, self.listener = progress, path, listener
        self._executor, self._seconds, self._keep_going = executor, seconds, keep_going
        self._began, self._before = time.monotonic(), progress.seconds
        self._saved = self._began
        self._queue = deque(self._leases())
        self.interrupted = False
        self.deaths: list[tuple[Lease, str]] = []

    def _leases(self) -> list[Lease]:
        p = self.progress
        return [
            Lease(p.bounds, p.subject, at, min(at + LEASE, stop), p.reduction)
            for start, stop in p.left()
            for at in range(start, stop, LEASE)
        ]

    def run(self) -> Progress:
        """Until all is done, time is up, a violation was found (unless told to keep going), or Ctrl-C."""
        try:
            with self._executor() as executor:
                while self._queue or executor.running:
                    while executor.idle and self._queue and not self._ending():
                        executor.submit(self._queue.popleft())
                    if not executor.running:
                        break
                    for done in executor.wait(TICK_S):
                        self._take(done)
                    for text in executor.repeated():
                        self.listener.note(text)
                    self._note_time()
        except KeyboardInterrupt:
            self.interrupted = True
        self._note_time(now=True)
        return self.progress

    def _ending(self) -> bool:
        late = self._seconds is not None and time.monotonic() - self._began >= self._seconds
        return late or bool((self.progress.failing or self.deaths) and not self._keep_going)

    def _take(self, done: Done) -> None:
        lease: Lease = done.task
        if done.error is not None:
            raise done.error
        lost = done.died or done.hung
        if not lost:
            self.progress.add(lease, done.value)
            return
        middle = (lease.start + lease.stop) // 2
        if middle > lease.start:
            halves = ((lease.start, middle), (middle, lease.stop))
            self._queue.extendleft(Lease(lease.bounds, lease.subject, *half, lease.reduction) for half in halves)
        else:
            self.deaths.append((lease, lost))
        self.listener.died(lease, lost)

    def _note_time(self, now: bool = False) -> None:
        clock = time.monotonic()
        self.progress.seconds = self._before + clock - self._began
        if now or clock - self._saved >= SAVE_S:
            save(self.progress, self.path)
            self._saved = clock
            self.listener.tick(self.progress)
