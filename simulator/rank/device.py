"""A rank's device: operations enqueued by its host, executed in stream order, later.

An operation may wait for another rank (activations, the sampled-token broadcast). It reads host-shared staging buffers
when it runs, not when it is enqueued; that is what makes lag and buffer reuse real.
"""

from __future__ import annotations

from collections import deque

from stalerow.simulator.rank.operations import Operation


class DeviceQueue:
    """One stream of one rank. `operations` is what is queued, oldest first."""

    def __init__(self) -> None:
        self.operations: deque[Operation] = deque()

    def __len__(self) -> int:
        return len(self.operations)

    def push(self, operation: Operation) -> None:
        self.operations.append(operation)

    def overtake(self, operation: Operation) -> None:
        """Put an operation in front of everything queued: what another stream would do."""
        self.operations.appendleft(operation)

    def runnable(self) -> bool:
        if not self.operations:
            return False
        ready = self.operations[0].ready
        return ready is None or ready()

    def head(self) -> Operation:
        return self.operations[0]

    def pop(self) -> Operation:
        return self.operations.popleft()

    def pending(self) -> tuple[Operation, ...]:
        """What is queued, oldest first."""
        return tuple(self.operations)
