"""What an actor would do next, in terms of the places that it uses: which two events of a run do not commute.

Queues between actors (a rank's inbox, its stream, the wires) are first in, first out with one writer and one reader, so
that adding at one end and taking at the other commute as soon as both can happen. What is left is memory that two
actors share without an order between them: the staging buffers, which a rank's host fills and its device reads later.
Faults may share more; `Shared` says what a subject's faults could reach.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import BlockCounts, Seed, Writes
from stalerow.simulator.schedule.choosers import Event, Place

NOTHING: frozenset[Place] = frozenset()
READ_STAGING = (Seed, Writes, BlockCounts)
"""Operations that read staging buffers."""


class Shared(msgspec.Struct, frozen=True):
    """What is shared beyond the staging buffers. `streams`: an operation may overtake others on its way into a queue,
    or the host reads what its device writes. `devices`: the ranks' kernels have a state in common."""

    streams: bool = False
    devices: bool = False


NOT_SHARED = Shared()


def event(ranks: Sequence[Rank], actor: str, shared: Shared = NOT_SHARED) -> Event:
    """The next event of an enabled actor; `ranks` are all of the run."""
    if actor == "engine":
        return Event(actor, NOTHING, frozenset({Place("engine")}))
    if actor == "side":
        return Event(actor, NOTHING, frozenset({Place("side")}))
    if actor.startswith("host"):
        index = int(actor[len("host") :])
        staging = ranks[index].staging
        fills = {Place("staging", index, pool, buffer) for pool, buffer in staging.next_buffers}
        own = Place("device" if shared.streams else "host", index)
        return Event(actor, NOTHING, frozenset({own, *fills}))
    index = int(actor[len("device") :])
    rank = ranks[index]
    reads: set[Place] = set()
    if isinstance(rank.queue.head(), READ_STAGING):
        reads |= {Place("staging", index, pool, buffer) for pool, buffer in rank.staging.unread}
    writes = {Place("device", index)} | ({Place("device")} if shared.devices else set())
    return Event(actor, frozenset(reads), frozenset(writes))
