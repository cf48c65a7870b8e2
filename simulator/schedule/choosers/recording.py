"""Recording choosers: let another chooser decide and keep what it picked, to be played back or shrunk later.

`RecordingChooser` keeps a generator's picks with their labels; `RecordingOrder` keeps the order of a run as an `Order`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from stalerow.simulator.schedule.choosers import Chooser, OrderChooser, Pending
from stalerow.simulator.schedule.order import Hold, Order

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


class Decision(NamedTuple):
    """Who was enabled, in canonical order, and which of them was chosen."""

    enabled: tuple[str, ...]
    choice: int


class RecordingOrder:
    """Lets `chooser` decide the order of a run and keeps the decisions; `order` replays the same run without it."""

    def __init__(self, chooser: OrderChooser) -> None:
        self._chooser = chooser
        self.decisions: list[Decision] = []

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        choice = self._chooser.next(enabled, pending)
        self.decisions.append(Decision(tuple(enabled), choice))
        return choice

    @property
    def order(self) -> Order:
        return deviations(self.decisions)


def deviations(decisions: Sequence[Decision]) -> Order:
    """The decisions as deviations from the canonical order: as picks, or as holds where those are fewer."""
    picks = tuple((at, decision.choice) for at, decision in enumerate(decisions) if decision.choice)
    holds = _holds(decisions)
    return Order(holds=holds) if len(holds) < len(picks) else Order(picks=picks)


def _holds(decisions: Sequence[Decision]) -> tuple[Hold, ...]:
    """Who was passed over, from the first decision to the last one before it was chosen."""
    holds: list[Hold] = []
    spans: dict[str, tuple[int, int]] = {}

    def close(actor: str) -> None:
        first, last = spans.pop(actor)
        holds.append(Hold(at=first, actor=actor, decisions=last - first + 1))

    for at, (enabled, choice) in enumerate(decisions):
        for actor in enabled[:choice]:
            spans[actor] = spans.get(actor, (at, at))[0], at
        if enabled[choice] in spans:
            close(enabled[choice])
    for actor in list(spans):
        close(actor)
    return tuple(sorted(holds, key=lambda hold: (hold.at, hold.actor)))
