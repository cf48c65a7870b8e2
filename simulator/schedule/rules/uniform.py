"""The uniform order: at every decision each enabled actor is as likely as the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stalerow.simulator.schedule.choosers import Pending
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.rules.base import Rule


class Uniform(Rule, frozen=True, kw_only=True, tag="uniform"):
    """At every decision each enabled actor is as likely as the others."""

    seed: int

    def chooser(self, decisions: Callable[[], int]) -> UniformOrder:
        return UniformOrder(self.seed)


class UniformOrder:
    def __init__(self, seed: int) -> None:
        self._random = SeededChooser(seed)

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        return self._random.pick(len(enabled), "next actor")
