"""The exhaustive chooser: depth-first over every list of picks, for questions small enough to be settled.

A search makes one `ExhaustiveChooser` and asks `more()` before every run; runs that share a beginning are tried next to
each other, the simplest first.
"""

from __future__ import annotations


class ExhaustiveChooser:
    """`depth` bounds how many picks of a run are varied; later ones take the simplest option."""

    def __init__(self, depth: int | None = None) -> None:
        self._depth = depth
        self._path: list[list[int]] = []
        self._position = 0
        self._started = False
        self.runs = 0

    def more(self) -> bool:
        """Go on to the next untried list of picks; False once all have been tried."""
        if self._started:
            while self._path and self._path[-1][0] + 1 >= self._path[-1][1]:
                self._path.pop()
            if not self._path:
                return False
            self._path[-1][0] += 1
        self._started = True
        self._position = 0
        self.runs += 1
        return True

    def pick(self, n: int, label: str = "") -> int:
        at = self._position
        self._position += 1
        if at < len(self._path):
            # A run that is not a function of its picks would otherwise be searched wrongly, without a word.
            if self._path[at][1] != n:
                raise ValueError(f"pick {at} ({label!r}) had {self._path[at][1]} options before and has {n} now")
            return self._path[at][0]
        if n == 1 or (self._depth is not None and at >= self._depth):
            self._position -= 1
            return 0
        self._path.append([0, n])
        return 0
