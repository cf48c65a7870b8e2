"""Several faults in one run: policies by inheritance, kernel wrappers one around the other.

In: fault classes, in the order named. Out: the arguments of `simulator.run.run`, and `Faults.run`, which is that
function with the faults applied. No faults at all is the correct system.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.outcome import Outcome, run
from stalerow.simulator.schedule.values import Schedule


class Faults:
    """Faults that are active together; the first named one is outermost and overrides the later ones."""

    def __init__(self, faults: Sequence[type[Fault]] = ()) -> None:
        self.faults = tuple(fault() for fault in faults)
        self.rank_policy = _mixed([f.rank for f in self.faults if f.rank is not None], RankPolicy)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(fault.name for fault in self.faults)

    def policies(self) -> Policies:
        """New engine policies for one run."""
        chosen = {}
        for field in fields(Policies):
            classes = [f.engine[field.name] for f in self.faults if field.name in f.engine]
            if classes:
                chosen[field.name] = _mixed(classes)()
        return Policies(**chosen)

    def kernels(self, kernels: KernelSet, schedule: Schedule) -> KernelSet:
        """The kernel set with every fault's wrapper around it."""
        for fault in reversed(self.faults):
            kernels = fault.wrap(kernels, schedule)
        return kernels

    def needs(self, schedule: Schedule) -> bool:
        """Whether every fault has what it needs in the schedule."""
        return all(fault.needs(schedule) for fault in self.faults)

    def run(self, schedule: Schedule, kernels: KernelSet, **options: Any) -> Outcome:
        """`simulator.run.run` with the faults; takes the same options but `policies` and `rank_policy`."""
        return run(
            schedule,
            self.kernels(kernels, schedule),
            policies=self.policies(),
            rank_policy=self.rank_policy,
            **options,
        )


@functools.lru_cache(maxsize=256)
def _combined(classes: tuple[type[Any], ...]) -> type[Any]:
    return type("+".join(c.__name__ for c in classes), classes, {})


def _mixed(classes: Sequence[type[Any]], default: type[Any] = object) -> type[Any]:
    distinct = tuple(dict.fromkeys(classes))
    if not distinct:
        return default
    return distinct[0] if len(distinct) == 1 else _combined(distinct)
