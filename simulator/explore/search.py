"""One lease of the search: a range of workloads, each with every acceptance of drafts and every order of events."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stalerow.simulator.explore.bounds import Acceptances, Bounds, schedule, workload
from stalerow.simulator.explore.orders import Counts, OrderSearch, Reduction
from stalerow.simulator.faults.hooks import together
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.outcome import FaultUse
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

Signature = tuple[str, str, bool]


class Failing(msgspec.Struct, frozen=True):
    """A schedule, its order of events written down, and the violation that it shows."""

    violation: Violation
    schedule: Schedule

    @property
    def signature(self) -> Signature:
        """Failures with the same signature are one finding."""
        return self.violation.kind, self.violation.launch, self.violation.deferred

    @property
    def size(self) -> tuple[int, ...]:
        """Requests, the step at which it shows, tokens, deviations: what makes one failure smaller than another."""
        requests = self.schedule.requests
        tokens = sum(r.prompt_len + r.max_tokens for r in requests)
        return len(requests), self.violation.during, tokens, self.schedule.order.deviations


class Searched(msgspec.Struct, frozen=True):
    """What a lease came to: `schedules` with different answers, how many of them `failed`, and the smallest failure of
    each signature. `skipped` lack what a fault needs and were not searched; `uses` is what became of the faults."""

    schedules: int = 0
    failed: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    failing: tuple[Failing, ...] = ()
    skipped: int = 0
    uses: tuple[FaultUse, ...] = ()


class Lease(msgspec.Struct, frozen=True):
    """Workloads `start` to `stop` - 1 of `bounds`."""

    bounds: Bounds
    subject: Subject
    start: int
    stop: int
    reduction: Reduction = Reduction()

    def __str__(self) -> str:
        return f"workloads {self.start} to {self.stop - 1}"

    def do(self) -> Searched:
        counts, smallest = Counts(), dict[Signature, Failing]()
        schedules = failed = skipped = 0
        uses: tuple[FaultUse, ...] = ()
        for index in range(self.start, self.stop):
            for search in searches(self.bounds, index, self.subject, self.reduction):
                uses = together((*uses, *(lacking := self.subject.lacking(search.schedule)), *search.uses))
                if lacking:
                    skipped += 1
                    continue
                schedules += 1
                failed += bool(search.found)
                counts.add(search.counts)
                for failing in failures(search):
                    keep(smallest, failing)
        return Searched(schedules, failed, counts, tuple(smallest.values()), skipped, uses)


def searches(bounds: Bounds, index: int, subject: Subject, reduction: Reduction) -> Iterator[OrderSearch]:
    """The finished search of every schedule that a workload stands for; a new one for what lacks a fault's needs."""
    shapes, acceptances, more = workload(bounds, index), Acceptances(), True
    while more:
        made = schedule(bounds, shapes, [acceptances.of(i) for i in range(len(shapes))])
        search, asked = OrderSearch(made, subject, reduction), list[tuple[int, int]]()
        if subject.lacking(made):
            asked = questions(made, subject)
            yield search
            more = acceptances.next(asked)
            continue
        for simulation in search.runs():
            # The engine schedules the same steps in every order of events; a run that was cut may know fewer.
            verified = simulation.planner.verified
            if len(verified) > len(asked):
                asked = [(int(request[1:]), drafts) for request, drafts in verified]
        yield search
        more = acceptances.next(asked)


def questions(schedule: Schedule, subject: Subject) -> list[tuple[int, int]]:
    """What a schedule asks about acceptance, (request, drafts) in order, by a run without the faults."""
    plain = OrderSearch(schedule, msgspec.structs.replace(subject, faults=()))
    simulation = next(plain.runs())
    return [(int(request[1:]), drafts) for request, drafts in simulation.planner.verified]


def failures(search: OrderSearch) -> list[Failing]:
    """What went wrong first in a run; the rest is its consequence."""
    schedule, replace = search.schedule, msgspec.structs.replace
    return [Failing(f.violation, replace(schedule, order=f.order)) for f in search.found.values() if f.first]


def keep(smallest: dict[Signature, Failing], failing: Failing) -> None:
    """Of failures with one signature the smallest is kept."""
    known = smallest.get(failing.signature)
    if known is None or failing.size < known.size:
        smallest[failing.signature] = failing


def do(lease: Lease) -> Searched:
    """What workers run."""
    return lease.do()
