"""The recorded chooser: plays back a list of picks, then the simplest option; used for replay and in tests."""

from __future__ import annotations

from collections.abc import Iterable


class RecordedChooser:
    def __init__(self, picks: Iterable[int]) -> None:
        self._picks = iter(picks)

    def pick(self, n: int, label: str = "") -> int:
        return min(max(next(self._picks, 0), 0), n - 1)
