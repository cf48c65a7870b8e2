"""The Hypothesis chooser: every pick is an integer that Hypothesis draws, so that Hypothesis can shrink it.

Built by `schedule.strategies` and `campaign.shrink` inside a test case; parts become Hypothesis' spans, which it
leaves out whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class HypothesisChooser:
    """`draw` is the function that `hypothesis.strategies.composite` or `data` gives to a test case."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def pick(self, n: int, label: str = "") -> int:
        # A single option takes up a choice too: only parts of the same shape can take each other's place.
        return min(int(self._draw(st.integers(0, max(n - 1, 1)))), n - 1)

    def part(self, make: Callable[[HypothesisChooser], T]) -> T:
        """What `make` draws from this chooser, as one span."""
        made: T = self._draw(_part(make))
        return made


@st.composite
def _part(draw: Any, make: Callable[[HypothesisChooser], T]) -> T:
    return make(HypothesisChooser(draw))
