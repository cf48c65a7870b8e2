"""Candidates of a shrinking: each is run once at most, and no longer than it takes to know whether it fails alike."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.ordering import chooser
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers.recording import RecordingOrder
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.order import Order, ThreadLag
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

Signature = tuple[str, str, bool]
Prepare = Callable[[Schedule], Schedule]


def signature(violation: Violation) -> Signature:
    """What shrinking keeps."""
    return violation.kind, violation.launch, violation.deferred


class _Decided(Exception):
    """Raised out of a run once it is known whether the candidate will do."""

    def __init__(self, same: bool) -> None:
        self.same = same


class Candidates:
    """Answers whether a candidate fails in the same way; equal candidates run once, and no run longer than it must."""

    def __init__(
        self,
        subject: Subject,
        wanted: Signature,
        budget: int,
        prepare: Prepare,
        schedule_s: float | None = None,
        shrink_s: float | None = None,
    ) -> None:
        self._schedule_s = schedule_s
        self._deadline = None if shrink_s is None else time.monotonic() + shrink_s
        self._subject, self._wanted, self._budget, self.prepare = subject, wanted, budget, prepare
        self._known: dict[bytes, bool] = {}
        self._shortest: int | None = None
        self.runs = 0

    @property
    def spent(self) -> bool:
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or self.runs >= self._budget

    def allow(self, more: int) -> None:
        """Give what comes next runs of its own, however many have been used."""
        self._budget = self.runs + more

    def fails(self, schedule: Schedule) -> bool:
        """Whether the schedule, prepared as the campaign's schedules are, fails in the wanted way."""
        schedule = self.prepare(schedule)
        key = to_json(schedule)
        if key not in self._known:
            if self.spent:
                return False
            self.runs += 1
            self._known[key] = self._run(schedule)
        return self._known[key]

    def order_to_failure(self, schedule: Schedule) -> Order:
        """The order of a failing schedule as deviations from the canonical one, as far as it matters."""
        recording = RecordingOrder(chooser(schedule))
        lags: list[ThreadLag] = []

        def watch(simulation: Simulation, actor: str, done: Any) -> None:
            if simulation.threads is not None and actor.startswith("device"):
                lags.extend(simulation.threads.taken)
            if simulation.found:
                raise _Decided(True)

        with contextlib.suppress(_Decided):
            self._subject.run(schedule, observer=watch, order=recording)
        if not schedule.order.interleaves:
            return recording.order
        return msgspec.structs.replace(recording.order, lags=tuple(lags))

    def _run(self, schedule: Schedule) -> bool:
        if self._subject.lacking(schedule):
            return False
        events = 0
        # A candidate that takes much longer to fail than the best so far is not simpler, whatever it saved elsewhere.
        limit = None if self._shortest is None else self._shortest + self._shortest // 4 + 20

        def watch(simulation: Any, actor: str, done: Any) -> None:
            nonlocal events
            events += 1
            if simulation.found:
                raise _Decided(signature(simulation.found[0]) == self._wanted)
            if limit is not None and events > limit:
                raise _Decided(False)

        try:
            with _alarm(self._schedule_s):
                outcome = self._subject.run(schedule, observer=watch)
        except _Decided as decided:
            same = decided.same
        except (UsageError, InternalError):
            same = False
        else:
            same = bool(outcome.violations) and signature(outcome.violations[0]) == self._wanted
        if same:
            self._shortest = min(events, self._shortest or events)
        return same


@contextlib.contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Ends a run that takes too long, where a signal can: in the main thread, between two Python instructions."""
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: object) -> None:
        raise _Decided(False)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
