"""Where the threads of one launch lag: each at random, at its start or before any of its accesses to memory.

How often is drawn once a launch, from at every access to never, so that launches range from whole programs in another
order to warps that overtake each other all the time.
"""

from __future__ import annotations

from stalerow.simulator.schedule.choosers import Chooser

MEANS = (1, 4, 16)
"""Accesses of a thread between two of its lags, on average."""


class DrawnLags:
    """Lags of one launch, asked for thread by thread (`stalerow.kernels.compiled.interleave.Lags`)."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._late = bool(chooser.pick(2, "programs begin in another order"))
        how = chooser.pick(len(MEANS) + 1, "how often threads lag")
        self._mean = MEANS[how - 1] if how else 0

    def next(self, program: int, warp: int, access: int) -> int | None:
        """The number, `access` or later, of the access before which the thread lags next; None for never."""
        if access == 0 and self._late and self._chooser.pick(2, "begins late"):
            return 0
        return access + self._chooser.pick(2 * self._mean, "accesses until it lags") if self._mean else None
