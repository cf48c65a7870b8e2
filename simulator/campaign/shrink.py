"""A failing schedule to the smallest one that still fails in the same way.

Two passes, both over re-run candidates only: Hypothesis shrinks the generator's picks, starting from those that the
seed made; then small edits that the generator does not offer (fewer ranks, plainer limits) are tried on the schedule.
"The same way" is the first violation's kind, launch and lateness: what comes after it is its consequence.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.ordering import chooser
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.run.subject import Subject
from stalerow.simulator.schedule.choosers.recorded import RecordedChooser
from stalerow.simulator.schedule.choosers.recording import RecordingChooser, RecordingOrder
from stalerow.simulator.schedule.draw import Draw, Runner
from stalerow.simulator.schedule.edits import edits
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import HOLDS, ORDER_LABELS, PP_SIZES, as_asked, chooser_of, generate, genuine
from stalerow.simulator.schedule.order import Order, ThreadLag
from stalerow.simulator.schedule.values import Schedule

BUDGET = 400
"""Candidate runs of Hypothesis in one shrinking; the edits after it have half as many of their own. Bounded by count
and not by time, so that a result is the same on any machine."""

Signature = tuple[str, str, bool]
Prepare = Callable[[Schedule], Schedule]


def signature(violation: Violation) -> Signature:
    """What shrinking keeps."""
    return violation.kind, violation.launch, violation.deferred


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest schedule found and how many candidates were run for it."""

    schedule: Schedule
    runs: int


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


def shrink(
    subject: Subject,
    schedule: Schedule,
    wanted: Signature,
    budget: int = BUDGET,
    schedule_s: float | None = None,
    shrink_s: float | None = None,
) -> Shrunk:
    """Shrink a failing schedule. A schedule that was drawn goes through Hypothesis; any other only through edits.

    Every candidate keeps to what the draw asked for and returns within `schedule_s` seconds. It ends with `budget` or
    after `shrink_s` seconds, with what is smallest by then.
    """
    draw = schedule.draw if genuine(schedule) else None
    prepare: Prepare = _as_it_is if draw is None else functools.partial(as_asked, draw=draw)
    candidates = Candidates(subject, wanted, budget, prepare, schedule_s, shrink_s)
    best = schedule
    if draw is not None:
        best = prepare(_by_hypothesis(candidates, draw) or schedule)
        candidates.allow(budget // 2)
    best = _written_down(candidates, msgspec.structs.replace(best, draw=None))
    tried = {to_json(best)}
    while (smaller := _first(candidates, _new(prepare, edits(best), tried))) is not None:
        best = smaller
    return Shrunk(best, candidates.runs)


def _written_down(candidates: Candidates, schedule: Schedule) -> Schedule:
    """With what a kind of order picked up to the failure as deviations of their own, which edits can take away."""
    if schedule.order.rule is msgspec.UNSET and schedule.order.threads is msgspec.UNSET:
        return schedule
    order = candidates.order_to_failure(schedule)
    written = msgspec.structs.replace(schedule, order=order)
    if order.lags:
        # Launches before the one that failed did no harm, so their lags most likely did not matter.
        last = order.lags[-1]
        its = tuple(
            lag for lag in order.lags if (lag.rank, lag.step, lag.kernel) == (last.rank, last.step, last.kernel)
        )
        shorter = msgspec.structs.replace(schedule, order=msgspec.structs.replace(order, lags=its))
        if candidates.fails(shorter):
            return shorter
    return written if candidates.fails(written) else schedule


def _as_it_is(schedule: Schedule) -> Schedule:
    return schedule


def _new(prepare: Prepare, schedules: Iterable[Schedule], tried: set[bytes]) -> Iterator[Schedule]:
    """Prepared candidates, each at most once: preparing may undo what an edit took away."""
    for schedule in schedules:
        made = prepare(schedule)
        key = to_json(made)
        if key not in tried:
            tried.add(key)
            yield made


def _by_hypothesis(candidates: Candidates, draw: Draw) -> Schedule | None:
    """The smallest failing schedule that Hypothesis comes to from the draw's own; None if it cannot start from that."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from stalerow.simulator.schedule.choosers.known import KnownFailure
    from stalerow.simulator.schedule.strategies import schedules

    start, pp = _recorded(draw)
    start = _without_parts(candidates, _canonical(candidates, start, pp, draw.runner), pp, draw.runner)
    best: Schedule | None = None

    @settings(
        # Hypothesis starts from the failures in its database: that is how one of ours is handed to it.
        database=KnownFailure([pick.choice for pick in start.picks]),
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        max_examples=1,
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @seed(0)
    @given(schedules(pp=pp, runner=draw.runner))
    def search(candidate: Schedule) -> None:
        nonlocal best
        if candidates.fails(candidate):
            best = candidate
            raise _Found

    try:
        search()
    except _Found:
        return best
    return None


class _Found(Exception):
    """Tells Hypothesis that a candidate fails."""


def _recorded(draw: Draw) -> tuple[RecordingChooser, int | None]:
    """The picks that make the draw's schedule, and what is left of its pp: a size on offer becomes a pick."""
    pp, runner = draw.pp, draw.runner
    recording = RecordingChooser(chooser_of(draw))
    made = generate(recording, pp, runner)
    if pp in PP_SIZES:
        size = PP_SIZES.index(pp)
        choices = [size if p.label == "pp" else p.choice for p in recording.picks]
        as_pick = RecordingChooser(RecordedChooser(choices))
        if generate(as_pick, None, runner) == made:
            return as_pick, None
    return recording, pp


def _canonical(
    candidates: Candidates, start: RecordingChooser, pp: int | None, runner: Runner | None
) -> RecordingChooser:
    """In canonical order, if it fails in that too: few failures need an order of their own."""
    choices = [p.choice for p in start.picks if not p.label.startswith(ORDER_LABELS)]
    at = next(i for i, p in enumerate(start.picks) if p.label.startswith(ORDER_LABELS))
    canonical = RecordingChooser(RecordedChooser([*choices[:at], 0, 0, *choices[at:]]))
    return canonical if candidates.fails(generate(canonical, pp, runner)) else start


def _without_parts(
    candidates: Candidates, start: RecordingChooser, pp: int | None, runner: Runner | None
) -> RecordingChooser:
    """Leave out requests and holds first: Hypothesis would rather keep many small ones than few."""
    position = len(start.parts)
    while position and not candidates.spent:
        position -= 1
        less = RecordingChooser(RecordedChooser(_leaving_out(start, position)))
        # The generator has its own idea of the fewest: it may put back what was left out.
        fewer = candidates.fails(generate(less, pp, runner)) and len(less.parts) < len(start.parts)
        if fewer:
            start, position = less, len(less.parts)
    return start


def _leaving_out(recording: RecordingChooser, part: int) -> list[int]:
    """The choices without one part, and the count that governs it lowered by one."""
    begin, end = recording.parts[part]
    labels = [p.label for p in recording.picks]
    choices = [p.choice for p in recording.picks]
    if labels[begin].startswith("hold"):
        at = labels.index("holds")
        choices[at] = HOLDS.index(max(HOLDS[choices[at]] - 1, 0))
    else:
        at = labels.index("requests")
        choices[at] -= 1
    return choices[:begin] + choices[end:]


def _first(candidates: Candidates, options: Iterable[Schedule]) -> Schedule | None:
    for option in options:
        if candidates.spent:
            return None
        if candidates.fails(option):
            return option
    return None


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
