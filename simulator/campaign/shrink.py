"""A failing schedule to the smallest one that still fails in the same way.

Two passes, both over re-run candidates only: Hypothesis shrinks the generator's picks, starting from those that the
seed made; then small edits that the generator does not offer (fewer ranks, plainer limits) are tried on the schedule.
"The same way" is the first violation's kind, launch and lateness: what comes after it is its consequence.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from stalerow.simulator.campaign.candidates import Candidates, Prepare, Signature
from stalerow.simulator.campaign.picks import by_hypothesis
from stalerow.simulator.schedule.edits import edits
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import as_asked, genuine
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

BUDGET = 400
"""Candidate runs of Hypothesis in one shrinking; the edits after it have half as many of their own. Bounded by count
and not by time, so that a result is the same on any machine."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest schedule found and how many candidates were run for it."""

    schedule: Schedule
    runs: int


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
        best = prepare(by_hypothesis(candidates, draw) or schedule)
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


def _first(candidates: Candidates, options: Iterable[Schedule]) -> Schedule | None:
    for option in options:
        if candidates.spent:
            return None
        if candidates.fails(option):
            return option
    return None
