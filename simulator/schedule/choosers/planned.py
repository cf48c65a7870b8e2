"""The planned order: canonical precedence, except where a schedule's `Order` holds an actor back or picks another.

Decisions are numbered over the whole run and counted only where two actors or more are enabled.
"""

from __future__ import annotations

from collections.abc import Sequence

from stalerow.simulator.schedule.values import Order


class PlannedOrder:
    def __init__(self, order: Order) -> None:
        self._holds = [(h.at, h.at + h.decisions, h.actor) for h in order.holds]
        self._picks = dict(order.picks)
        self._canonical_from = max([0, *(stop for _, stop, _ in self._holds), *(at + 1 for at in self._picks)])
        self.decision = 0

    def next(self, enabled: Sequence[str]) -> int:
        now = self.decision
        self.decision += 1
        if now >= self._canonical_from:
            return 0
        if now in self._picks:
            return self._picks[now] % len(enabled)
        held = [actor for start, stop, actor in self._holds if start <= now < stop]
        if not held:
            return 0
        return next((i for i, actor in enumerate(enabled) if actor not in held), 0)
