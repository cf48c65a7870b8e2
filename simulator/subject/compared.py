"""A worker beside our own ranks as a subject, so that what makes them differ can be shrunk like any failure."""

from __future__ import annotations

from typing import Any

from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.outcome import Outcome
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.worker.agreement import Difference, agreement


class Compared(Subject, frozen=True, kw_only=True):
    """A worker for which a schedule fails if our ranks do not agree with it: what differs is the violation."""

    def run(self, schedule: Schedule, observer: Any = None, order: Any = None) -> Outcome:
        found = agreement(self.worker, self.python, schedule)
        difference = found.difference
        violations = () if difference is None else (as_violation(difference),)
        return Outcome(schedule, str(self), violations, {}, "", "", found.steps, (), "")


def as_violation(difference: Difference) -> Violation:
    return Violation(
        kind="rank divergence",
        rank=difference.rank,
        launch=difference.what,
        step=difference.step,
        during=difference.step,
        explanation=str(difference),
    )
