"""The programs of launches under test, interleaved as the schedule's order says, and who raced.

A schedule that was drawn says with which seed threads lag (`Interleaving`); every launch draws from a stream of its
own, so that it keeps its lags when others go. A saved failure lists them (`ThreadLag`). Only kernels that are compiled
for a CPU run in a form whose programs can be interleaved.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from hashlib import blake2b

import msgspec

from stalerow.kernels.compiled.interleave import Given, Interleaver, Lags, interleaved
from stalerow.kernels.compiled.races import Lag, Log, Touch
from stalerow.kernels.compiled.races import Race as Found
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.violations import Race, Racer, Violation
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.schedule.choosers.lagging import DrawnLags
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.order import ThreadLag
from stalerow.simulator.schedule.values import Schedule


class Threads(Interleaver):
    """Interleaves the launches of a run. Raises `UsageError` for kernels that do not run in such a form."""

    def __init__(self, schedule: Schedule, kernels: KernelSet) -> None:
        if kernels.backend.name != "triton-cpu":
            raise UsageError(
                f"the schedule interleaves programs, and {kernels.name} does not run compiled for the CPU: "
                "use Triton kernels with --device cpu, or leave --interleave out"
            )
        self._order = schedule.order
        self._rank = self._step = -1
        self._logs: list[Log] = []
        self.taken: list[ThreadLag] = []
        """The lags of the last operation that made a difference."""

    def around(self, rank: int, operation: Operation) -> AbstractContextManager[None]:
        """The launches inside are the operation's."""
        self._rank, self._step = rank, operation.step
        self._logs, self.taken = [], []
        return interleaved(self)

    def lags(self, kernel: str) -> Lags:
        order = self._order
        if not isinstance(order.lags, msgspec.UnsetType):
            mine = (lag for lag in order.lags if (lag.rank, lag.step, lag.kernel) == (self._rank, self._step, kernel))
            return Given([Lag(lag.program, lag.warp, lag.access) for lag in mine])
        seed = 0 if isinstance(order.threads, msgspec.UnsetType) else order.threads.seed
        digest = blake2b(f"{seed}/{self._rank}/{self._step}/{kernel}".encode(), digest_size=8).digest()
        return DrawnLags(SeededChooser(int.from_bytes(digest, "little")))

    def ran(self, log: Log) -> None:
        self._logs.append(log)
        self.taken += [
            ThreadLag(
                rank=self._rank,
                step=self._step,
                kernel=log.kernel,
                program=lag.program,
                warp=lag.warp,
                access=lag.access,
            )
            for lag in log.lags
        ]

    def named(self, found: list[Violation], since: int, operation: Operation) -> None:
        """Say of the violations from number `since` on which two programs raced; racing writes are one themselves."""
        races = [race for log in self._logs for race in log.races()]
        for i in range(since, len(found)):
            race = _of(found[i], races)
            if race is not None:
                found[i] = msgspec.structs.replace(
                    found[i], race=_told(race), explanation=f"{found[i].explanation}; {_words(race)}"
                )
        writes = next((race for race in races if race.first.verb == race.second.verb == "store"), None)
        if writes is not None and since == len(found):
            found.append(_racing_writes(writes, self._rank, operation))


def threads(schedule: Schedule, kernels: KernelSet) -> Threads | None:
    """What interleaves the launches of the schedule's run, None if programs run one after another."""
    return Threads(schedule, kernels) if schedule.order.interleaves else None


def _of(violation: Violation, races: list[Found]) -> Found | None:
    """The race that made the violation: over its target block if there is one, and one that showed."""

    def fit(race: Found) -> tuple[bool, bool, bool]:
        between = race.first.program != race.second.program
        return race.block is not None and race.block == violation.target_block, between, race.first.verb != "load"

    return max(races, key=fit, default=None)


def _told(race: Found) -> Race:
    return Race(
        kernel=race.kernel,
        first=_racer(race.first),
        second=_racer(race.second),
        over=race.place,
        block=-1 if race.block is None else race.block,
    )


def _racer(touch: Touch) -> Racer:
    return Racer(
        program=touch.program,
        warp=touch.warp,
        verb=touch.verb,
        size=touch.size,
        at=f"{os.path.basename(touch.file)}:{touch.line}",
    )


def _words(race: Found) -> str:
    told = _told(race)
    return f"{told.first} before {told.second}, and nothing orders the two: a race over memory {told.over}"


def _racing_writes(race: Found, rank: int, operation: Operation) -> Violation:
    of = operation.batch_step
    return Violation(
        kind="racing writes",
        rank=rank,
        launch=operation.kind,
        step=of,
        during=operation.step,
        deferred=of != operation.step,
        target_block=-1 if race.block is None else race.block,
        race=_told(race),
        explanation=f"{operation.kind} of step {of} on rank {rank}: two programs write different bytes to one place, "
        f"and the last one stays; {_words(race)}",
    )
