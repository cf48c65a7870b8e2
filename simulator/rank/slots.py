"""Request slots of a worker: a LIFO free list, and a generation counter per slot that every free bumps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stalerow.simulator.errors import BrokenRule


class SlotTable:
    """Slots 0..max_reqs-1. A slot is a request's index in the persistent tables."""

    def __init__(self, max_reqs: int) -> None:
        self.free = list(range(max_reqs))
        self.slot_of: dict[str, int] = {}
        self.generation = np.zeros(max_reqs, dtype=np.int64)
        self.freed_at: dict[int, int] = {}

    def holders(self) -> dict[int, str]:
        """Requests by slot, now."""
        return {slot: request for request, slot in self.slot_of.items()}

    def take(self, request: str, choose: Callable[[list[int]], int]) -> int:
        """Give the request the slot that `choose` takes off the free list."""
        if not self.free:
            raise BrokenRule(f"no free slot for {request}: the engine admitted more than max_num_seqs requests")
        slot = self.slot_of[request] = choose(self.free)
        return slot

    def release(self, request: str, step: int) -> int | None:
        slot = self.slot_of.pop(request, None)
        if slot is not None:
            self.free.append(slot)
            self.generation[slot] += 1
            self.freed_at[slot] = step
        return slot
