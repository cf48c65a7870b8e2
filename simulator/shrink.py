"""A failing schedule to the smallest one that still fails in the same way.

Two passes, both over re-run candidates only: Hypothesis shrinks the generator's picks, starting from those that the
seed made; then small edits that the generator does not offer (fewer ranks, plainer limits) are tried on the schedule.
"The same way" is the first violation's kind, launch and lateness: what comes after it is its consequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from stalerow.simulator.choosers.recorded import RecordedChooser
from stalerow.simulator.choosers.recording import RecordingChooser
from stalerow.simulator.choosers.seeded import SeededChooser
from stalerow.simulator.edits import edits
from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.generate import PP_SIZES, Runner, generate
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule import Schedule, to_json
from stalerow.simulator.subject import Subject

BUDGET = 400
"""Candidate runs of Hypothesis in one shrinking; the edits after it have half as many of their own. Bounded by count and
not by time, so that a result is the same on any machine."""

Signature = tuple[str, str, bool]


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

    def __init__(self, subject: Subject, wanted: Signature, budget: int) -> None:
        self._subject, self._wanted, self._budget = subject, wanted, budget
        self._known: dict[bytes, bool] = {}
        self._shortest: int | None = None
        self.runs = 0

    @property
    def spent(self) -> bool:
        return self.runs >= self._budget

    def allow(self, more: int) -> None:
        """Give what comes next runs of its own, however many have been used."""
        self._budget = self.runs + more

    def fails(self, schedule: Schedule) -> bool:
        key = to_json(schedule)
        if key not in self._known:
            if self.spent:
                return False
            self.runs += 1
            self._known[key] = self._run(schedule)
        return self._known[key]

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
    pp: int | None = None,
    runner: Runner | None = None,
    budget: int = BUDGET,
) -> Shrunk:
    """Shrink a failing schedule. A schedule that a seed made goes through Hypothesis; any other only through edits."""
    candidates = Candidates(subject, wanted, budget)
    best = schedule
    if schedule.seed is not None:
        best = _by_hypothesis(candidates, schedule, pp, runner) or schedule
        candidates.allow(budget // 2)
    best = _without_seed(best)
    while (smaller := _first(candidates, edits(best))) is not None:
        best = smaller
    return Shrunk(best, candidates.runs)


def _by_hypothesis(
    candidates: Candidates, schedule: Schedule, pp: int | None, runner: Runner | None
) -> Schedule | None:
    from hypothesis import Phase, Verbosity, find, settings
    from hypothesis.database import InMemoryExampleDatabase, choices_to_bytes
    from hypothesis.errors import NoSuchExample

    from stalerow.simulator.strategies import schedules

    assert schedule.seed is not None
    picks, pp = _picks(schedule.seed, pp, runner)
    key = b"stalerow"
    database = InMemoryExampleDatabase()
    # Hypothesis starts from the failures in its database: that is the public way to hand it one of ours.
    database.save(key, choices_to_bytes(picks))
    try:
        return find(
            schedules(pp=pp, runner=runner),
            candidates.fails,
            settings=settings(
                database=database,
                phases=(Phase.reuse, Phase.generate, Phase.shrink),
                deadline=None,
                verbosity=Verbosity.quiet,
                max_examples=1,
            ),
            random=Random(0),
            database_key=key,
        )
    except NoSuchExample:
        return None


def _picks(seed: int, pp: int | None, runner: Runner | None) -> tuple[list[int], int | None]:
    """The picks that make the seed's schedule, and what is left of `pp`: a size on offer becomes a pick, to be shrunk."""
    recording = RecordingChooser(SeededChooser(seed))
    generate(recording, pp, runner)
    picks = recording.picks
    if pp in PP_SIZES:
        picks = [p._replace(choice=PP_SIZES.index(pp)) if p.label == "pp" else p for p in picks]
        replayed = generate(RecordedChooser([p.choice for p in picks]), None, runner)
        if replayed == generate(SeededChooser(seed), pp, runner):
            pp = None
    return [p.choice for p in picks], pp


def _without_seed(schedule: Schedule) -> Schedule:
    fields = {f: getattr(schedule, f) for f in schedule.__struct_fields__}
    return Schedule(**fields | {"seed": None})


def _first(candidates: Candidates, options: Iterable[Schedule]) -> Schedule | None:
    for option in options:
        if candidates.spent:
            return None
        if candidates.fails(option):
            return option
    return None


def first_signature(violations: Sequence[Violation]) -> Signature | None:
    return signature(violations[0]) if violations else None
