"""What the generator asks a chooser for: a number, one of several, a chance, a part that belongs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from stalerow.simulator.schedule.choosers import Chooser

T = TypeVar("T")


class Choices:
    """Small helpers over a chooser."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser

    def between(self, low: int, high: int, label: str) -> int:
        return low + self._chooser.pick(high - low + 1, label)

    def of(self, options: Sequence[T], label: str) -> T:
        return options[self._chooser.pick(len(options), label)]

    def named(self, options: Sequence[str], label: str) -> str:
        """One of a list that may grow at its end: a seed's answer changes only if it becomes the new option."""
        chosen = options[0]
        for count, option in enumerate(options[1:], 2):
            if self.chance(count, f"{label} {option}"):
                chosen = option
        return chosen

    def chance(self, one_in: int, label: str) -> bool:
        """True once in `one_in`; False is the simple answer."""
        return self._chooser.pick(one_in, label) == one_in - 1

    def part(self, make: Callable[[Choices], T]) -> T:
        """What `make` draws belongs together; a chooser that can use that has a method for it."""
        together = getattr(self._chooser, "part", None)
        if together is None:
            return make(self)
        made: T = together(lambda chooser: make(Choices(chooser)))
        return made
