"""Virtual time for a run that was ordered by its schedule: integer microseconds, by the cost model of serving.

The order of events is the run's own: no event starts before the one that came before it in that order. Within that, an
event starts as soon as its actor is free and what it needs has arrived, and lasts as long as the model says.
"""

from __future__ import annotations

from stalerow.simulator.serve.costs import Costs


class Clock:
    """Assigns (start, end) to events in their order. `ready` of an event: the moments before which it cannot start."""

    def __init__(self, costs: Costs, pp: int, drafts: int) -> None:
        self.costs, self._pp, self._drafts = costs, pp, drafts
        self._free: dict[str, int] = {}
        self._order = 0
        self._sent: dict[int, int] = {}
        self._enqueued: dict[tuple[int, int], int] = {}
        self._activations: dict[tuple[int, int], int] = {}
        self._sampled: dict[int, int] = {}
        self._received: dict[int, int] = {}
        self._outputs: dict[int, int] = {}

    def _take(self, actor: str, duration: int, *ready: int | None) -> tuple[int, int]:
        start = max(self._order, self._free.get(actor, 0), *(moment or 0 for moment in ready))
        self._order, self._free[actor] = start, start + duration
        return start, start + duration

    def scheduled(self, step: int) -> tuple[int, int]:
        start, end = self._take("engine", self.costs.schedule)
        self._sent[step] = end + self.costs.message
        return start, end

    def processed(self, step: int) -> tuple[int, int]:
        return self._take("engine", self.costs.process, self._outputs.get(step))

    def waited(self) -> tuple[int, int]:
        return self._take("engine", 0)

    def prepared(self, rank: int, step: int) -> tuple[int, int]:
        start, end = self._take(f"host{rank}", self.costs.host, self._sent.get(step))
        self._enqueued[rank, step] = end
        self._outputs.setdefault(step, end + self.costs.message)
        return start, end

    def broadcast(self, rank: int, step: int) -> tuple[int, int]:
        start, end = self._take(f"side{rank}", self.costs.broadcast, self._sampled.get(step))
        self._received[step] = end
        return start, end

    def forward(self, rank: int, step: int, tokens: int) -> tuple[int, int]:
        ready = self._enqueued.get((rank, step)), self._activations.get((rank - 1, step))
        start, end = self._take(f"main{rank}", self.costs.forward(tokens, self._pp), *ready)
        self._activations[rank, step] = end + self.costs.activations(tokens)
        return start, end

    def sample(self, rank: int, step: int) -> tuple[int, int]:
        duration = self.costs.sample + self.costs.draft * self._drafts
        start, end = self._take(f"main{rank}", duration, self._enqueued.get((rank, step)))
        self._sampled[step], self._outputs[step] = end, end + self.costs.message
        return start, end

    def launch(self, rank: int, step: int, received: int | None = None) -> tuple[int, int]:
        """Any other launch; one that takes the output of step `received` waits for its broadcast."""
        arrived = None if received is None else self._received.get(received)
        return self._take(f"main{rank}", self.costs.launch, self._enqueued.get((rank, step)), arrived)

    def copies(self, rank: int, step: int, moves: int) -> tuple[int, int]:
        """A launch of state copies for so many requests."""
        return self._take(f"main{rank}", self.costs.copies(moves, self._pp), self._enqueued.get((rank, step)))
