"""What a fuzzing worker does: try a draw, or reduce a failing one. Tasks go in, small picklable results come out.

`Trial` runs one draw's schedule. `Reduction` shrinks a failure, confirms the result with the kernels in question,
checks that two runs agree byte for byte, and draws it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stalerow.simulator.draw.picture import picture
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.released import RefusedLayout
from stalerow.simulator.run.outcome import FaultUse, Outcome
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

BUDGET_WITHOUT_TWIN = 250
LONGEST_SHRINK_S = 3600.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What one trial showed. `digests` are of as many runs as there were; `bounded`: nothing was out of bounds.

    memory: as in `run.Outcome`, of the first run. parting: where runs that should have been equal part.
    order: that of a failing run, as deviations from the canonical one. faults: as in `run.Outcome`.
    skipped: nothing was run, since the schedule lacks what a fault needs or the kernels' release refuses its layout.
    """

    draw: Draw
    violation: Violation | None
    digests: tuple[str, ...]
    marks: tuple[str, ...]
    bounded: bool
    requests: int
    decisions: int
    memory: str = ""
    parting: str = ""
    order: Order | None = None
    faults: tuple[FaultUse, ...] = ()
    skipped: bool = False

    @property
    def differs(self) -> bool:
        return len(set(self.digests)) > 1


@dataclass(frozen=True, slots=True)
class Trial:
    """Run a draw's schedule, `times` times. A run that takes longer than `schedule_s` seconds is taken for hung."""

    draw: Draw
    subject: Subject
    times: int = 1
    schedule_s: float | None = None

    @property
    def limit_s(self) -> float | None:
        return None if self.schedule_s is None else self.schedule_s * self.times

    def __str__(self) -> str:
        return self.draw.command(self.subject)

    def do(self) -> Seen:
        schedule = from_draw(self.draw)
        lacking = self.subject.lacking(schedule)
        if lacking:
            return Seen(self.draw, None, (), (), True, len(schedule.requests), 0, faults=lacking, skipped=True)
        try:
            outcomes = [self.subject.run(schedule) for _ in range(self.times)]
        except RefusedLayout:
            return Seen(self.draw, None, (), (), True, len(schedule.requests), 0, skipped=True)
        first = outcomes[0]
        differ = len({o.digest for o in outcomes}) > 1
        return Seen(
            draw=self.draw,
            violation=first.violations[0] if first.violations else None,
            digests=tuple(o.digest for o in outcomes),
            marks=tuple(first.marks),
            bounded=all(v.kind != "out of bounds" for v in first.violations),
            requests=len(schedule.requests),
            decisions=first.decisions,
            memory=first.memory,
            parting=_parting(schedule, self.subject) if differ else "",
            order=first.order if first.violations else None,
            faults=first.faults,
        )


@dataclass(frozen=True, slots=True)
class Reduced:
    """A failure made small. `differing`: digests of runs that should have been equal. `confirmed`: the kernels in
    question fail in the same way; False only where a twin did the shrinking."""

    schedule: Schedule
    violation: Violation
    digest: str
    drawing: str
    runs: int
    marks: tuple[str, ...] = ()
    confirmed: bool = True
    differing: tuple[str, ...] = ()
    parting: str = ""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Shrink what `finder` showed in `seen`, then confirm it with `subject`, whose twin `finder` may be.

    It ends after `shrink_s` seconds with the smallest schedule by then; a candidate that takes longer than `schedule_s`
    does not count as failing. width: columns of the drawing, None for those of the terminal that the process has.
    """

    seen: Seen
    subject: Subject
    finder: Subject = field(default_factory=Subject)
    schedule_s: float | None = None
    shrink_s: float | None = None
    width: int | None = None

    @property
    def limit_s(self) -> float | None:
        """What a reduction may take that keeps to its bounds; only a hung one takes longer."""
        if self.schedule_s is None:
            return None
        return (LONGEST_SHRINK_S if self.shrink_s is None else self.shrink_s) + 6 * self.schedule_s

    def __str__(self) -> str:
        return f"{self.seen.draw.command(self.finder)} (shrinking)"

    def do(self) -> Reduced:
        from stalerow.simulator.campaign.candidates import signature
        from stalerow.simulator.campaign.shrink import BUDGET, shrink

        violation = self.seen.violation
        assert violation is not None
        schedule = from_draw(self.seen.draw)
        again = self.finder.run(schedule)
        if again.digest != self.seen.digests[0]:
            return self._breach(schedule, violation, self.seen.digests[0], again.digest)
        budget = BUDGET if self.finder != self.subject else BUDGET_WITHOUT_TWIN
        if self.finder.kernels.startswith("reference:"):
            budget = BUDGET
        wanted = signature(violation)
        shrunk = shrink(self.finder, schedule, wanted, budget, self.schedule_s, self.shrink_s)
        first, second = (self.subject.run(shrunk.schedule) for _ in range(2))
        if first.digest != second.digest:
            return self._breach(shrunk.schedule, violation, first.digest, second.digest)
        found = _first(first)
        confirmed = found is not None and signature(found) == wanted
        return Reduced(
            schedule=shrunk.schedule,
            violation=found or violation,
            digest=first.digest,
            drawing=picture(shrunk.schedule, self.finder.run, str(self.subject), self.width) if confirmed else "",
            runs=shrunk.runs,
            marks=tuple(first.marks),
            confirmed=confirmed,
        )

    def _breach(self, schedule: Schedule, violation: Violation, *digests: str) -> Reduced:
        where = _parting(schedule, self.finder)
        return Reduced(schedule, violation, digests[0], "", 0, differing=digests, parting=where)


def _parting(schedule: Schedule, subject: Subject) -> str:
    """Where two more runs part, in words."""
    from stalerow.simulator.run.determinism import parting

    found = parting(schedule, subject.run)
    return str(found) if found else "two more runs were equal at every decision"


def _first(outcome: Outcome) -> Violation | None:
    return outcome.violations[0] if outcome.violations else None


def do(task: Trial | Reduction) -> Seen | Reduced:
    """What workers run."""
    return task.do()


def digest_of(task: tuple[Subject, Schedule]) -> str:
    """The digest of one run: what a worker does for `replay`."""
    subject, schedule = task
    return subject.run(schedule).digest
