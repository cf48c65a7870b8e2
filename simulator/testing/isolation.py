"""The property itself, as an assertion: no state crosses requests in this schedule, with these kernels.

`assert_isolated` is for tests, with Hypothesis or without. It counts what was run and skipped and which marks were seen
in `STATISTICS`, which the pytest plugin reports; its error carries the schedule, and its message is the drawing.
"""

from __future__ import annotations

import functools
import sys
import unittest
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from stalerow.simulator.draw.picture import picture
from stalerow.simulator.subject.subject import Subject

if TYPE_CHECKING:
    from stalerow.kernels.sets import KernelSet
    from stalerow.simulator.run.outcome import FaultUse, Outcome
    from stalerow.simulator.run.simulation import Observer
    from stalerow.simulator.schedule.values import Schedule

TARGETS = ("deferred postprocess over a re-gathered table", "open window", "slot reused within P steps")
"""Marks that Hypothesis is told to look for more of: rare, and where the bugs are."""


class Statistics:
    """What was run. `marks` and `kinds` count schedules in which a mark or a first violation's kind occurred, `skipped`
    those that lack what a fault needs and were not run; `uses` is what became of each choice of faults."""

    def __init__(self) -> None:
        self.schedules = self.skipped = 0
        self.uses: dict[tuple[str, ...], tuple[FaultUse, ...]] = {}
        self.kernels: Counter[str] = Counter()
        self.marks: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def add(self, kernels: str, marks: Mapping[str, int], kind: str | None) -> None:
        self.schedules += 1
        self.kernels[kernels] += 1
        self.marks.update(marks.keys())
        if kind is not None:
            self.kinds[kind] += 1

    def use(self, faults: tuple[str, ...], uses: Sequence[FaultUse]) -> None:
        """Note what became of the faults of a run, or why there was none."""
        if faults:
            from stalerow.simulator.faults.hooks import together

            self.uses[faults] = together((*self.uses.get(faults, ()), *uses))

    def to_builtins(self) -> dict[str, Any]:
        counters = {name: dict(getattr(self, name)) for name in ("kernels", "marks", "kinds")}
        uses = [(faults, msgspec.to_builtins(made)) for faults, made in self.uses.items()]
        return {"schedules": self.schedules, "skipped": self.skipped, "uses": uses} | counters

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add what another process's `to_builtins` gave."""
        from stalerow.simulator.run.outcome import FaultUse

        self.schedules += other["schedules"]
        self.skipped += other["skipped"]
        for faults, uses in other["uses"]:
            self.use(tuple(faults), msgspec.convert(uses, list[FaultUse]))
        for name in ("kernels", "marks", "kinds"):
            getattr(self, name).update(other[name])


STATISTICS = Statistics()


class IsolationError(AssertionError):
    """A schedule broke isolation. The message, made when it is asked for, is the drawing."""

    schedule: Schedule
    outcome: Outcome
    subject: Subject
    kernel_set: KernelSet | None = None
    about: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        return f"\n{picture(self.schedule, self.run, str(self.subject))}{self._again()}"

    @property
    def run(self) -> Callable[..., Outcome]:
        """Runs a schedule as this one was run; takes an observer as well."""
        return _Execution(self.subject, self.kernel_set)

    def _again(self) -> str:
        """The command for the same failure; none where a command could not name the kernels or make the schedule."""
        from stalerow.kernels.sets import KERNEL_SETS
        from stalerow.simulator.schedule.generate import genuine

        draw = self.schedule.draw
        named = self.kernel_set is None or self.kernel_set.name in KERNEL_SETS
        if draw is None or not named or not genuine(self.schedule):
            return ""
        return f"\nagain: {draw.command(self.subject)}"


class _Execution:
    def __init__(self, subject: Subject, kernel_set: KernelSet | None) -> None:
        self._subject, self._kernel_set = subject, kernel_set

    def __call__(self, schedule: Schedule, observer: Observer | None = None) -> Outcome:
        if self._kernel_set is None:
            return self._subject.run(schedule, observer)
        from stalerow.simulator.run.outcome import run

        return run(schedule, self._kernel_set, observer=observer)


def assert_isolated(
    schedule: Schedule, kernels: str | Subject | KernelSet = "req-idx", *, device: str = "auto"
) -> Outcome:
    """Run `schedule` and raise `IsolationError` if any state crossed requests.

    `kernels` is a name as `--kernels` takes it, a `Subject` (a name with faults), or a kernel set.
    Inside a Hypothesis test, marks become events and targets. A schedule that lacks what a fault of the subject needs
    is not run: Hypothesis is told to draw another, any other test raises `unittest.SkipTest`, which pytest counts.
    """
    __tracebackhide__ = True
    if isinstance(kernels, str):
        subject, kernel_set = Subject(kernels=kernels, device=device), None
    elif isinstance(kernels, Subject):
        subject, kernel_set = kernels, None
    else:
        subject, kernel_set = Subject(kernels=kernels.name, device=device), kernels
    if lacking := subject.lacking(schedule):
        STATISTICS.skipped += 1
        STATISTICS.use(subject.faults, lacking)
        _skip(subject, schedule)
    outcome = _Execution(subject, kernel_set)(schedule)
    STATISTICS.use(subject.faults, outcome.faults)
    first = outcome.violations[0] if outcome.violations else None
    STATISTICS.add(str(subject), outcome.marks, first.kind if first else None)
    _tell_hypothesis(outcome)
    if first is not None:
        error = _error_type(first.kind, first.launch)()
        error.schedule, error.outcome, error.subject, error.kernel_set = schedule, outcome, subject, kernel_set
        raise error
    return outcome


def _skip(subject: Subject, schedule: Schedule) -> NoReturn:
    """End a test case that would show nothing."""
    from stalerow.simulator.faults import resolve

    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is not None and hypothesis.currently_in_test_context():
        hypothesis.reject()
    raise unittest.SkipTest(resolve(subject.faults).lacked(schedule))


@functools.cache
def _error_type(kind: str, launch: str) -> type[IsolationError]:
    """Hypothesis tells failures apart by the exception's type: one for each kind, so that shrinking keeps to it."""
    return type("IsolationError", (IsolationError,), {"__module__": __name__, "about": (kind, launch)})


def _tell_hypothesis(outcome: Outcome) -> None:
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is None or not hypothesis.currently_in_test_context():
        return
    for mark in outcome.marks:
        hypothesis.event(mark)
    observed = {"distinct marks": len(outcome.marks)} | {m: outcome.marks.get(m, 0) for m in TARGETS}
    for label, count in observed.items():
        try:
            hypothesis.target(count, label=f"{label} ({outcome.kernels})")
        except hypothesis.errors.InvalidArgument:
            # The test case runs several schedules with one kernel set: the first is the one aimed with.
            return
