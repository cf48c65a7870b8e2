"""Several faults in one run: policies by inheritance, kernel wrappers one around the other.

In: fault classes, in the order named. Out: the arguments of `simulator.run.run`, and `Faults.run`, which is that
function with the faults applied. No faults at all is the correct system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.faults.hooks import ENGINE_POLICIES, Asked, check, has_what_it_needs, needs_in_words, untested
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.outcome import FaultUse, Outcome, run
from stalerow.simulator.schedule.values import Schedule


class Faults:
    """Faults that are active together; the first named one is outermost and overrides the later ones."""

    def __init__(self, faults: Sequence[type[Fault]] = ()) -> None:
        for fault in faults:
            check(fault)
        self.faults = tuple(fault() for fault in faults)
        self.rank_policy = _mixed([f.rank for f in self.faults if f.rank is not None], RankPolicy)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(fault.name for fault in self.faults)

    def policies(self, asked: Sequence[Asked] | None = None) -> Policies:
        """New engine policies for one run, which count in `asked`, one per fault."""
        chosen, asked = {}, asked or [Asked(fault) for fault in self.faults]
        for name, base in ENGINE_POLICIES.items():
            pairs = [(f.engine[name], counts) for f, counts in zip(self.faults, asked) if name in f.engine]
            if pairs:
                chosen[name] = _mixed([counts.policy(name, policy, base) for policy, counts in pairs])()
        return Policies(**chosen)

    def worker(self, asked: Sequence[Asked]) -> type[RankPolicy]:
        """`rank_policy` for one run, which counts in `asked`."""
        pairs = [(f.rank, counts) for f, counts in zip(self.faults, asked) if f.rank is not None]
        return _mixed([counts.policy("rank", policy, RankPolicy) for policy, counts in pairs], RankPolicy)

    def kernels(self, kernels: KernelSet, schedule: Schedule, asked: Sequence[Asked] | None = None) -> KernelSet:
        """The kernel set with every fault's wrapper around it, calls counted in `asked`."""
        asked = asked or [Asked(fault) for fault in self.faults]
        for fault, counts in reversed(list(zip(self.faults, asked))):
            made = fault.wrap(kernels, schedule)
            for room in ("align", "ops"):
                if getattr(made, room) is not getattr(kernels, room):
                    counts.wrapper(room, getattr(made, room))
            kernels = made
        return kernels

    def needs(self, schedule: Schedule) -> bool:
        """Whether every fault has what it needs in the schedule."""
        return all(has_what_it_needs(fault, schedule) for fault in self.faults)

    def lacked(self, schedule: Schedule) -> str:
        """What the first fault whose needs are not met lacks in the schedule, in words; "" if nothing is lacking."""
        for fault in self.faults:
            if not has_what_it_needs(fault, schedule):
                return f"the schedule lacks what fault {fault.name!r} needs{needs_in_words(type(fault))}"
        return ""

    def run(self, schedule: Schedule, kernels: KernelSet, **options: Any) -> Outcome:
        """`simulator.run.run` with the faults; takes the same options but `policies` and `rank_policy`.

        The outcome says in `faults` which of their hooks were asked.
        """
        asked = [Asked(fault) for fault in self.faults]
        outcome = run(
            schedule,
            self.kernels(kernels, schedule, asked),
            policies=self.policies(asked),
            rank_policy=self.worker(asked),
            **options,
        )
        uses = tuple(counts.use(has_what_it_needs(fault, schedule)) for fault, counts in zip(self.faults, asked))
        return replace(outcome, faults=uses) if uses else outcome

    def untested(self, uses: Sequence[FaultUse]) -> tuple[list[str], bool]:
        """See `hooks.untested`."""
        return untested(uses, {fault.name: needs_in_words(type(fault)) for fault in self.faults})


def _mixed(classes: Sequence[type[Any]], default: type[Any] = object) -> type[Any]:
    distinct = tuple(dict.fromkeys(classes))
    if not distinct:
        return default
    return distinct[0] if len(distinct) == 1 else type("+".join(c.__name__ for c in distinct), distinct, {})
