"""The order that is given: canonical precedence, but where a schedule's `Order` holds an actor back or picks another.

Decisions are numbered over the whole run and counted only where two actors or more are enabled.
"""

from __future__ import annotations

from collections.abc import Sequence

from stalerow.simulator.schedule.choosers import OrderChooser, Pending
from stalerow.simulator.schedule.order import Order


class GivenOrder:
    """`rule`, if given, decides wherever nothing is picked."""

    def __init__(self, order: Order, rule: OrderChooser | None = None) -> None:
        self._holds = [(h.at, h.at + h.decisions, h.actor) for h in order.holds]
        self._picks = dict(order.picks)
        self._rule = rule
        self._canonical_from = max([0, *(stop for _, stop, _ in self._holds), *(at + 1 for at in self._picks)])
        self.decision = 0

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        now = self.decision
        self.decision += 1
        if self._rule is not None:
            choice = self._rule.next(enabled, pending)
            return self._picks[now] % len(enabled) if now in self._picks else choice
        if now >= self._canonical_from:
            return 0
        if now in self._picks:
            return self._picks[now] % len(enabled)
        held = [actor for start, stop, actor in self._holds if start <= now < stop]
        if not held:
            return 0
        return next((i for i, actor in enumerate(enabled) if actor not in held), 0)
