"""Partial order sampling (POS, Yuan, Yang and Gu 2018): a random priority for each event, not for each actor.

Once an event has happened, the pending events that conflict with it draw again. Orders that differ only in events that
commute are then about as likely as one, whereas uniform choices spend themselves on telling those apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stalerow.simulator.schedule.choosers import Pending
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.rules.base import Rule


class PartialOrder(Rule, frozen=True, kw_only=True, tag="pos"):
    """POS (Yuan, Yang and Gu 2018): a priority for each event, drawn again when a conflicting event comes first."""

    seed: int

    def chooser(self, decisions: Callable[[], int]) -> PartialOrderSampling:
        return PartialOrderSampling(self.seed)


class PartialOrderSampling:
    """The pending event of highest priority happens. An actor has one pending event at a time, so priorities are kept
    by actor and dropped when it acts."""

    def __init__(self, seed: int) -> None:
        self._random = SeededChooser(seed)
        self._priority: dict[str, int] = {}

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        priority = self._priority
        for actor in enabled:
            if actor not in priority:
                priority[actor] = self._random.pick(1 << 32, "priority")
        choice = max(range(len(enabled)), key=lambda i: priority[enabled[i]])
        happens = pending(enabled[choice])
        for actor in enabled:
            if actor == happens.actor or pending(actor).conflicts(happens):
                del priority[actor]
        return choice
