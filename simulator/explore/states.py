"""When two states of one schedule's runs are the same, so that what follows is the same too.

An engine or a host is a function of how many events it has had; a device of the operations it has run and of the memory
that is left, staging buffers included. So a state is everybody's number of events, and all memory byte for byte.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

from stalerow.simulator.oracle.judge import DIGESTED

if TYPE_CHECKING:
    from stalerow.simulator.rank.base import Rank
    from stalerow.simulator.run.events import Shared
    from stalerow.simulator.run.simulation import Simulation

OTHER_ARRAYS = ("src_col", "src_off", "num_accepted_snapshot", "last_token")
"""The per-slot arrays beside those that a run's digest covers."""


class StateTracker:
    """Follows one run and fingerprints its state."""

    def __init__(self) -> None:
        self._events: Counter[str] = Counter()
        self._memory: dict[int, bytes] = {}

    def saw(self, actor: str) -> None:
        """An actor has acted: its rank's memory may be another."""
        self._events[actor] += 1
        for kind in ("device", "host"):
            if actor.startswith(kind):
                self._memory.pop(int(actor[len(kind) :]), None)

    def comparable(self, shared: Shared) -> bool:
        """Whether a state is all that the future depends on: a fault may remember more than can be seen here."""
        return not (shared.streams or shared.devices)

    def fingerprint(self, simulation: Simulation) -> int:
        """64 bits over everybody's number of events and all memory."""
        digest = blake2b(repr(sorted(self._events.items())).encode(), digest_size=8)
        for rank in simulation.ranks:
            memory = self._memory.get(rank.index)
            if memory is None:
                memory = self._memory[rank.index] = _memory(rank)
            digest.update(memory)
        return int.from_bytes(digest.digest(), "little")


def _memory(rank: Rank) -> bytes:
    host, slots = rank.backend.to_host, rank.slots
    digest = blake2b(host(rank.pool.array).tobytes(), digest_size=16)
    for name in (*DIGESTED, *OTHER_ARRAYS):
        digest.update(host(getattr(slots, name)).tobytes())
    tables = rank.tables
    for table in (*tables.persistent, *tables.gathered, tables.num_blocks, rank.state_indices, rank.seq_lens):
        digest.update(host(table).tobytes())
    digest.update(repr(rank.staging.contents).encode())
    return digest.digest()
