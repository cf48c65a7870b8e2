"""Host-shared staging buffers: pinned, device-visible, taken round-robin from a pool of fixed depth.

The device reads a buffer when its operation runs. A pool shallower than the number of steps in flight lets the host
overwrite what a queued operation has not read yet (vLLM #47644, #53057); `overwritten` names the pools where it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping


class StagingPool:
    """Buffers of integers by pool name. A buffer's content is a tuple that every write replaces."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.overwritten: set[str] = set()
        self._buffers: dict[str, list[tuple[int, ...]]] = {}
        self._turn: dict[str, int] = {}
        self._unread: Counter[tuple[str, int]] = Counter()

    def stage(self, name: str, values: tuple[int, ...]) -> Callable[[], tuple[int, ...]]:
        """Put `values` into the next buffer of pool `name`; the result reads that buffer's content at call time.

        A reader of n values of a buffer overwritten by fewer sees the new values first and its own old ones after.
        """
        ring = self._buffers.get(name)
        if ring is None:
            ring = self._buffers[name] = [()] * self.depth
        turn = self._turn[name] = (self._turn.get(name, -1) + 1) % self.depth
        count = len(values)
        content = ring[turn] = values + ring[turn][count:]
        self._unread[name, turn] += 1

        def read() -> tuple[int, ...]:
            self._unread[name, turn] -= 1
            current = ring[turn]
            if current is content:
                return values
            found = current[:count]
            if found != values:
                self.overwritten.add(name)
            return found

        return read

    @property
    def contents(self) -> tuple[Mapping[str, list[tuple[int, ...]]], Mapping[str, int]]:
        """What every pool's buffers hold, and which buffer of each was filled last. Not to be changed."""
        return self._buffers, self._turn

    @property
    def unread(self) -> frozenset[tuple[str, int]]:
        """Buffers, as (pool, buffer), that a queued operation has still to read."""
        return frozenset(place for place, readers in self._unread.items() if readers > 0)

    @property
    def next_buffers(self) -> frozenset[tuple[str, int]]:
        """The buffers, as (pool, buffer), that the host's next step may fill."""
        return frozenset((name, (turn + 1) % self.depth) for name, turn in self._turn.items())
