"""The search of one workload: a schedule as it is, or a workload of a bound with every acceptance of drafts.

It runs in this process, and what it keeps is where it stands inside a schedule's orders, so that even one schedule
whose search takes hours goes on after an interruption. An interruption waits for the end of the run under way.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from stalerow.simulator.errors import UsageError
from stalerow.simulator.explore.bounds import Acceptances, Bounds, schedule, workload
from stalerow.simulator.explore.orders import Branch, Counts, Found, OrderSearch
from stalerow.simulator.explore.progress import Sums, read, save
from stalerow.simulator.explore.search import Lease, Searched, failures, questions
from stalerow.simulator.schedule.values import Schedule

FORMAT = 1
SAVE_S = 5.0


class Standing(msgspec.Struct):
    """Where the search of one schedule's orders stands between two runs, as in `OrderSearch`."""

    path: list[Branch] = []
    counts: Counts = msgspec.field(default_factory=Counts)
    found: list[Found] = []
    visited: list[tuple[int, list[list[str]]]] = []
    asked: list[tuple[int, int]] = []


class Alone(Sums, kw_only=True):
    """`schedule` with its own acceptances, or workload `index` of `bounds`, of which `answers` are the acceptances of
    the schedule that is searched now."""

    alone_format: int = FORMAT
    schedule: Schedule | None = None
    bounds: Bounds | None = None
    index: int = 0
    answers: list[tuple[int, int]] = msgspec.field(default_factory=list)
    standing: Standing = msgspec.field(default_factory=Standing)
    over: bool = False

    @property
    def about(self) -> str:
        if self.schedule is None:
            return f"the largest workload of {self.bounds}"
        requests = len(self.schedule.requests)
        drawn = f"{self.schedule.draw}, " if self.schedule.draw else ""
        return f"{drawn}{requests} request{'s' * (requests != 1)}, pp {self.schedule.pipeline.pp}"

    @property
    def workloads(self) -> int:
        return 1

    @property
    def finished(self) -> int:
        return int(self.over)

    @property
    def holds(self) -> Bounds | None:
        """One workload is no bound."""
        return None

    @property
    def tried(self) -> int:
        return self.schedules + bool(self.standing.counts.runs)

    @property
    def violating(self) -> int:
        return self.failed + bool(self.standing.found)

    @property
    def visits(self) -> Counts:
        both = msgspec.structs.replace(self.counts)
        both.add(self.standing.counts)
        return both

    def asks_the_same(self, other: Alone) -> bool:
        """Whether both are of the same search."""
        mine, others = ((p.subject, p.reduction, p.schedule, p.bounds, p.index) for p in (self, other))
        return mine == others


def load(path: Path, asked: Alone) -> Alone:
    """The file of the search that is asked for. Raises `UsageError` for another's."""
    progress = read(path, Alone)
    if progress.alone_format != FORMAT:
        raise UsageError(f"{path}: alone_format is {progress.alone_format}, this release reads {FORMAT}")
    if not progress.asks_the_same(asked):
        raise UsageError(f"{path}: is the search of something else ({progress.about}): give the same options again")
    return progress


class AloneSearch:
    """Goes on with `progress` and keeps `path` up to date; `tick` is called as often. Nobody survives a death here."""

    def __init__(
        self,
        progress: Alone,
        path: Path,
        tick: Callable[[Alone], None],
        seconds: float | None = None,
        keep_going: bool = False,
    ) -> None:
        self.progress, self.path = progress, path
        self._tick, self._seconds, self._keep_going = tick, seconds, keep_going
        self._began, self._before = time.monotonic(), progress.seconds
        self._saved = self._began
        self.interrupted = False
        self.deaths: list[tuple[Lease, str]] = []

    def run(self) -> Alone:
        """Until all is done, time is up, a violation was found (unless told to keep going), or Ctrl-C."""
        with self._interruptions():
            while not (self.progress.over or self._stop()):
                self._one_schedule()
        self._note()
        return self.progress

    def _one_schedule(self) -> None:
        """Search the schedule of the answers of now, as far as there is time, and move on to the next answers."""
        progress, acceptances = self.progress, Acceptances()
        acceptances.answers = [*progress.answers]
        search, asked = self._search(acceptances), progress.standing.asked
        if lacking := progress.subject.lacking(search.schedule):
            progress.sum(Searched(skipped=1, uses=lacking))
            progress.over = not acceptances.next(questions(search.schedule, progress.subject))
            progress.answers = acceptances.answers
            return
        for simulation in search.runs():
            # The engine schedules the same steps in every order of events; a run that was cut may know fewer.
            if progress.schedule is None and len(simulation.planner.verified) > len(asked):
                asked = [(int(request[1:]), drafts) for request, drafts in simulation.planner.verified]
            if self._pause(search, asked):
                self._stand(search, asked)
                progress.sum(Searched(failing=tuple(failures(search)), uses=search.uses))
                return
        found = tuple(failures(search))
        progress.sum(Searched(1, bool(search.found), search.counts, found, uses=search.uses))
        progress.over = not acceptances.next(asked)
        progress.answers, progress.standing = acceptances.answers, Standing()

    def _search(self, acceptances: Acceptances) -> OrderSearch:
        progress, standing = self.progress, self.progress.standing
        made = progress.schedule
        if made is None:
            assert progress.bounds is not None
            shapes = workload(progress.bounds, progress.index)
            made = schedule(progress.bounds, shapes, [acceptances.of(i) for i in range(len(shapes))])
        return OrderSearch(
            made,
            progress.subject,
            progress.reduction,
            standing.path,
            standing.counts,
            {found.violation.identity(): found for found in standing.found},
            {state: [*map(frozenset, asleep)] for state, asleep in standing.visited},
        )

    def _pause(self, search: OrderSearch, asked: list[tuple[int, int]]) -> bool:
        """Whether to stop between two runs; what there is gets saved now and then."""
        if time.monotonic() - self._saved >= SAVE_S:
            self._stand(search, asked)
            self._note()
            self._tick(self.progress)
        return self._stop(search)

    def _stop(self, search: OrderSearch | None = None) -> bool:
        late = self._seconds is not None and time.monotonic() - self._began >= self._seconds
        found = bool(self.progress.failing or (search and any(found.first for found in search.found.values())))
        return late or self.interrupted or (found and not self._keep_going)

    def _stand(self, search: OrderSearch, asked: list[tuple[int, int]]) -> None:
        visited = [(state, [sorted(names) for names in asleep]) for state, asleep in search.visited.items()]
        self.progress.standing = Standing(search.path, search.counts, [*search.found.values()], visited, asked)

    def _note(self) -> None:
        self._saved = time.monotonic()
        self.progress.seconds = self._before + self._saved - self._began
        save(self.progress, self.path)

    @contextmanager
    def _interruptions(self) -> Iterator[None]:
        """Ctrl-C is noted, and answered between two runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: Any) -> None:
            self.interrupted = True

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
