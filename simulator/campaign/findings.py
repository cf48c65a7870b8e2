"""What a campaign has found: saved failures made from workers' results, and the sums so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.failures import Failure, Origin
from stalerow.simulator.campaign.trials import Reduced, Seen, Trial
from stalerow.simulator.oracle.violations import MARKS, Violation
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

if TYPE_CHECKING:
    from stalerow.simulator.run.outcome import FaultUse


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure that has been saved at `path`; `runs` candidates were run to shrink it."""

    failure: Failure
    path: Path
    drawing: str = ""
    runs: int = 0


@dataclass(slots=True)
class Tally:
    """Sums so far. `kinds` counts schedules by the kind of their first violation, `marks` schedules that had one.

    `scouted` counts trials of the kernels' NumPy twin, which are not in `schedules`, and `skipped` schedules that lack
    what a fault needs and were not run. `faults` is what became of the
    faults that were put in, run by run. `first_seen`: the schedule, counted from 1, that had a mark first.
    """

    schedules: int = 0
    scouted: int = 0
    skipped: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    breaches: list[Finding] = field(default_factory=list)
    faults: list[FaultUse] = field(default_factory=list)
    first_seen: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    began: float = field(default_factory=time.monotonic)

    def count(self, marks: Iterable[str], kind: str | None) -> None:
        self.schedules += 1
        for mark in marks:
            self.first_seen.setdefault(mark, self.schedules)
            self.marks[mark] += 1
        if kind is not None:
            self.kinds[kind] += 1

    @property
    def missed(self) -> list[str]:
        return [m for m in MARKS if m not in self.marks]

    @property
    def plateau(self) -> int:
        """Schedules since one had a mark that none before it had."""
        return self.schedules - max(self.first_seen.values(), default=0)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def exit_code(self, require_marks: bool = False) -> int:
        if self.interrupted:
            return 130
        if self.breaches:
            return 3
        if self.findings:
            return 1
        if not self.schedules:
            return 2
        return 1 if require_marks and self.missed else 0


def unshrunk(seen: Seen, subject: Subject, note: str) -> Failure:
    """The failure as the seed showed it."""
    violation = seen.violation
    assert violation is not None
    return Failure(
        kind=violation.kind,
        subject=subject,
        violation=violation,
        digest=seen.digests[0],
        note=note,
        origin=_origin(seen, subject),
        versions=failures.versions(),
        schedule=_written_down(seen),
    )


def _written_down(seen: Seen) -> Schedule:
    """The schedule with what its kind of order picked, so that it replays whatever that kind will pick in future."""
    schedule = from_draw(seen.draw)
    if seen.order is None or isinstance(schedule.order.rule, msgspec.UnsetType):
        return schedule
    return msgspec.structs.replace(schedule, order=seen.order)


def shrunk(seen: Seen, subject: Subject, reduced: Reduced) -> Failure:
    """The failure after shrinking."""
    return Failure(
        kind=reduced.violation.kind,
        subject=subject,
        violation=reduced.violation,
        digest=reduced.digest,
        shrunk=True,
        origin=_origin(seen, subject),
        versions=failures.versions(),
        schedule=reduced.schedule,
    )


def crash(trial: Trial, how: str) -> Failure:
    """A draw whose run killed its process, and another process after it."""
    was = "was " if how.startswith("killed") else ""
    return _without_violation(trial, failures.CRASH, f"the worker process {was}{how}; so did a second process")


def hang(trial: Trial, how: str) -> Failure:
    """A draw whose run did not return, and did not in another process either."""
    return _without_violation(trial, failures.HANG, f"the schedule {how}")


def _without_violation(trial: Trial, kind: str, note: str) -> Failure:
    return Failure(
        kind=kind,
        subject=trial.subject,
        note=note,
        origin=_bare_origin(trial.draw, trial.subject, kind),
        versions=failures.versions(),
        schedule=from_draw(trial.draw),
    )


def breach(draw: Draw, subject: Subject, violation: Violation | None, note: str, kind: str) -> Failure:
    """A seed whose runs differ from each other, or on which the simulator contradicts itself."""
    return Failure(
        kind=kind,
        subject=subject,
        violation=violation,
        note=note,
        origin=_bare_origin(draw, subject, kind),
        versions=failures.versions(),
        schedule=from_draw(draw),
    )


def _bare_origin(draw: Draw, subject: Subject, kind: str) -> Origin:
    return Origin(draw=draw, command=draw.command(subject), kind=kind)


def _origin(seen: Seen, subject: Subject) -> Origin:
    violation = seen.violation
    return Origin(
        draw=seen.draw,
        command=seen.draw.command(subject),
        kind=violation.kind if violation else "",
        launch=violation.launch if violation else "",
        digest=seen.digests[0],
        requests=seen.requests,
        decisions=seen.decisions,
    )
