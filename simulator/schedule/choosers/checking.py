"""The checking chooser: wraps another and compares every decision with those of an earlier run of the same schedule.

A run that is not a function of its schedule has a first decision at which it differs from the run before: other actors
are enabled, or the state is another. That decision is where to look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stalerow.simulator.schedule.choosers import OrderChooser, Pending


class Met(NamedTuple):
    """What a run met at a decision: who was enabled, and a fingerprint of the state (0 where none is taken)."""

    enabled: tuple[str, ...]
    state: int


class Parting(NamedTuple):
    """The first decision at which a run differs from an earlier one; None for a run that was over by then."""

    decision: int
    before: Met | None
    now: Met | None

    def __str__(self) -> str:
        if self.before is None or self.now is None:
            longer = "later" if self.before is None else "earlier"
            return f"the runs part at decision {self.decision}, which only the {longer} one comes to"
        if self.before.enabled == self.now.enabled:
            return f"the runs part at decision {self.decision}: the same can happen next, but memory differs"
        before, now = ", ".join(self.before.enabled), ", ".join(self.now.enabled)
        could = f"{before} could act in the earlier one, {now} in the later one"
        return f"the runs part at decision {self.decision}: {could}"


class CheckingOrder:
    """`before`: what an earlier run met, None for the first. `state` fingerprints the run's state when asked."""

    def __init__(
        self, chooser: OrderChooser, before: Sequence[Met] | None = None, state: Callable[[], int] = lambda: 0
    ) -> None:
        self._chooser, self._before, self._state = chooser, before, state
        self.met: list[Met] = []
        self._parting: Parting | None = None

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        now = Met(tuple(enabled), self._state())
        at = len(self.met)
        self.met.append(now)
        if self._before is not None and self._parting is None:
            before = self._before[at] if at < len(self._before) else None
            if before != now:
                self._parting = Parting(at, before, now)
        return self._chooser.next(enabled, pending)

    def parting(self) -> Parting | None:
        """Once the run is over: where it parts from the one before, None if it does not."""
        if self._parting is None and self._before is not None and len(self._before) > len(self.met):
            return Parting(len(self.met), self._before[len(self.met)], None)
        return self._parting
