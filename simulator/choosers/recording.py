"""The recording order: lets another chooser decide the order of events and keeps what it picked as an `Order`."""

from __future__ import annotations

from collections.abc import Sequence

from stalerow.simulator.choosers import Chooser
from stalerow.simulator.schedule import Order


class RecordingOrder:
    """Uses any `Chooser` for the order of a run; `order` replays the same run through `PlannedOrder`."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._picks: list[tuple[int, int]] = []
        self.decision = 0

    def next(self, enabled: Sequence[str]) -> int:
        choice = self._chooser.pick(len(enabled), "next actor")
        if choice:
            self._picks.append((self.decision, choice))
        self.decision += 1
        return choice

    @property
    def order(self) -> Order:
        return Order(picks=tuple(self._picks))
