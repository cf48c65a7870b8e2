"""A rank's device: operations enqueued by its host, executed in stream order, later.

An operation may wait for another rank (activations, the sampled-token broadcast). It reads host-shared staging buffers
when it runs, not when it is enqueued; that is what makes lag and buffer reuse real.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec


class Operation(msgspec.Struct, eq=False):
    """One queued device operation. `about` tells observers what the host meant by it."""

    kind: str
    step: int
    run: Callable[[], None]
    ready: Callable[[], bool] | None = None
    about: Mapping[str, Any] = {}


class DeviceQueue:
    """One stream of one rank."""

    def __init__(self) -> None:
        self._queue: deque[Operation] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, operation: Operation) -> None:
        self._queue.append(operation)

    def overtake(self, operation: Operation) -> None:
        """Put an operation in front of everything queued: what another stream would do."""
        self._queue.appendleft(operation)

    def runnable(self) -> bool:
        if not self._queue:
            return False
        ready = self._queue[0].ready
        return ready is None or ready()

    def head(self) -> Operation:
        return self._queue[0]

    def pop(self) -> Operation:
        return self._queue.popleft()

    def pending(self) -> tuple[Operation, ...]:
        """What is queued, oldest first."""
        return tuple(self._queue)
