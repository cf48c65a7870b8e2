"""Recording choosers: let another chooser decide and keep what it picked, to be played back or shrunk later.

`RecordingChooser` keeps a generator's picks with their labels; `RecordingOrder` keeps the order of a run as an `Order`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from stalerow.simulator.schedule.choosers import Chooser
from stalerow.simulator.schedule.values import Order

T = TypeVar("T")


class Pick(NamedTuple):
    """One decision of a generator: `choice` of `options`."""

    label: str
    options: int
    choice: int


class RecordingChooser:
    """Passes every question on to `chooser` and keeps the answers in `picks`; `parts` are (start, stop) in them."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self.picks: list[Pick] = []
        self.parts: list[tuple[int, int]] = []

    def pick(self, n: int, label: str = "") -> int:
        choice = self._chooser.pick(n, label)
        self.picks.append(Pick(label, n, choice))
        return choice

    def part(self, make: Callable[[RecordingChooser], T]) -> T:
        start = len(self.picks)
        made = make(self)
        self.parts.append((start, len(self.picks)))
        return made


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
