"""Host-shared staging buffers: pinned, device-visible, taken round-robin from a pool of fixed depth.

The device reads a buffer when its operation runs. A pool shallower than the number of steps in flight lets the host
overwrite what a queued operation has not read yet (vLLM #47644, #53057); `overwritten` names the pools where it has.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class StagingPool:
    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.overwritten: set[str] = set()
        self._buffers: dict[str, list[np.ndarray | None]] = {}
        self._turn: dict[str, int] = {}

    def stage(self, name: str, values: np.ndarray) -> Callable[[], np.ndarray]:
        """Copy `values` into the next buffer of pool `name`; the result reads that buffer's content at call time.

        A reader of n values of a buffer overwritten by fewer sees the new values first and its own old ones after.
        """
        ring = self._buffers.setdefault(name, [None] * self.depth)
        turn = self._turn[name] = (self._turn.get(name, -1) + 1) % self.depth
        shape = values.shape
        flat = np.array(values).reshape(-1)
        buffer = ring[turn]
        if buffer is None or buffer.dtype != flat.dtype or buffer.size < flat.size:
            grown = np.zeros(flat.size, dtype=flat.dtype)
            if buffer is not None and buffer.dtype == flat.dtype:
                grown[: buffer.size] = buffer
            buffer = ring[turn] = grown
        buffer[: flat.size] = flat

        def read() -> np.ndarray:
            current = ring[turn]
            assert current is not None
            found = current[: flat.size].copy()
            if not np.array_equal(found, flat):
                self.overwritten.add(name)
            return found.reshape(shape)

        return read
