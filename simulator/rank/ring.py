"""The deferred ring of a non-last rank: outputs of the last P steps whose sampled tokens have not been consumed yet."""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np


class RingEntry(msgspec.Struct, frozen=True):
    """What a non-last rank remembers of a step until its sampled tokens arrive.

    slots: int64 [rows], the batch mapping; generation: int64 [rows], the slots' counters at push;
    needs_output: bool [rows].
    """

    step: int
    requests: tuple[str, ...]
    slots: np.ndarray
    generation: np.ndarray
    needs_output: np.ndarray


class DeferredRing:
    """P entries, pre-seeded empty. Every step takes the oldest and leaves an empty place that it may fill."""

    def __init__(self, depth: int) -> None:
        self._entries: deque[RingEntry | None] = deque([None] * depth)

    def pop(self) -> RingEntry | None:
        entry = self._entries.popleft()
        self._entries.append(None)
        return entry

    def fill(self, entry: RingEntry) -> None:
        self._entries[-1] = entry
