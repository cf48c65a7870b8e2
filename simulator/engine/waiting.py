"""Requests that wait: first come first served, or by priority and arrival.

Filled by the scheduler with new and preempted requests; emptied by admission, from the front. Public source: vLLM's
request queues.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from stalerow.simulator.engine.config import SchedulingPolicy
from stalerow.simulator.engine.request import Request


class WaitingQueue:
    """A queue of requests. Under "priority" a request put back takes its place in the order, not the front."""

    def __init__(self, policy: SchedulingPolicy) -> None:
        self._sorted = policy == "priority"
        self._requests: list[Request] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """First to last."""
        return iter(self._requests)

    @property
    def first(self) -> Request:
        return self._requests[0]

    def pop(self) -> Request:
        """Take the first one out."""
        return self._requests.pop(0)

    def append(self, request: Request) -> None:
        """Add a request that has just come."""
        if self._sorted:
            bisect.insort(self._requests, request, key=lambda r: r.rank)
        else:
            self._requests.append(request)

    def put_back(self, requests: Iterable[Request]) -> None:
        """Put requests that were taken out before all others, in the given order."""
        if self._sorted:
            for request in requests:
                self.append(request)
        else:
            self._requests[:0] = requests

    def reorder(self, order: Iterable[Request]) -> None:
        """Put the first requests into another order; `order` has each of them once."""
        order = list(order)
        self._requests[: len(order)] = order

    def remove(self, request: Request) -> None:
        """Take out a request. ValueError if it is not there."""
        self._requests.remove(request)
