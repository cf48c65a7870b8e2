"""The latency order: whoever can start first in virtual time acts first, so a model of costs decides the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stalerow.simulator.schedule.choosers import Pending


class EarliestFirst:
    """`starts` gives the earliest start of every enabled actor, in integer microseconds; whoever runs the actors keeps
    it up to date. Ties go to the canonical order."""

    def __init__(self, starts: Mapping[str, int]) -> None:
        self._starts = starts
        self.decision = 0

    def next(self, enabled: Sequence[str], pending: Pending | None = None) -> int:
        self.decision += 1
        times = [self._starts[actor] for actor in enabled]
        return times.index(min(times))
