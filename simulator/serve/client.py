"""The client of a serving run: sends requests as `vllm bench serve` does, and notes what a user would.

It keeps at most `max_concurrency` requests open. `loop` asks for arrivals and delivers tokens; `report` reads the
records. Times are integer microseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from stalerow.simulator.serve.workload import ServeRequest


@dataclass(slots=True)
class Record:
    """One request as the client saw it. `deliveries` counts outputs streamed, `finish` is the engine's reason."""

    sent: int
    first: int = -1
    last: int = -1
    deliveries: int = 0
    tokens: int = 0
    finish: str = ""


class Client:
    """`spacing`: microseconds between two requests sent, and from a finished request to the next one."""

    def __init__(self, requests: Sequence[ServeRequest], max_concurrency: int | None, spacing: int) -> None:
        self._unsent = deque(requests)
        self._limit = max_concurrency or len(requests)
        self._spacing = spacing
        self._sent: deque[tuple[int, ServeRequest]] = deque()
        self._open = 0
        self._last_sent = 0
        self.records: dict[str, Record] = {}
        self._send(0)

    @property
    def next_arrival(self) -> int | None:
        """When the next request reaches the engine, None if nothing is on its way."""
        return self._sent[0][0] if self._sent else None

    @property
    def done(self) -> bool:
        return not self._unsent and not self._sent and not self._open

    def arrivals(self, now: int) -> list[ServeRequest]:
        """The requests that have reached the engine by now, in the order in which they were sent."""
        arrived = []
        while self._sent and self._sent[0][0] <= now:
            arrived.append(self._sent.popleft()[1])
        return arrived

    def deliver(self, request: str, count: int, reason: str | None, now: int) -> None:
        """`count` tokens reach the client; a `reason` ends the request and lets the next one go."""
        record = self.records[request]
        if record.first < 0:
            record.first = now
        record.last = now
        record.deliveries += 1
        record.tokens += count
        if reason is not None:
            record.finish = reason
            self._open -= 1
            self._send(now)

    def _send(self, now: int) -> None:
        while self._unsent and self._open < self._limit:
            request = self._unsent.popleft()
            self._open += 1
            at = self._last_sent = max(now, request.arrival, self._last_sent) + self._spacing
            self._sent.append((at, request))
            self.records[request.id] = Record(at)
