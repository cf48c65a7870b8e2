"""Which orders need not be tried: those that differ from a tried one only in events that commute.

`sufficient` is a persistent set (Godefroid 1996): whatever the other actors do meanwhile commutes with the events of
the set, so that nothing new comes of letting them go first. A run has no cycles, so every order is still reached up to
commuting events, and with it every violation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stalerow.simulator.rank.operations import BlockCounts, Gather
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.events import READ_STAGING, Shared

if TYPE_CHECKING:
    from stalerow.simulator.faults.base import Fault
    from stalerow.simulator.rank.operations import Operation
    from stalerow.simulator.run.simulation import Simulation
    from stalerow.simulator.subject.subject import Subject

AT_START = frozenset({"staging_depth", "ring_depth", "binder", "zero_padding"})
"""Decisions of a worker that are made before anything runs: a fault there lets no two actors share more."""


def shared_by(subject: Subject, runner: str) -> Shared:
    """What a subject's actors may have in common beyond what the correct system shares, on the safe side."""
    from stalerow.simulator.faults import resolve

    faults = resolve(subject.faults).faults if subject.faults else ()
    made_here = ":" in subject.kernels.removeprefix("reference:")
    return Shared(
        streams=runner == "v1" or any(_overrides(fault) - AT_START for fault in faults),
        devices=made_here or any(_wraps(fault) for fault in faults),
    )


def _overrides(fault: Fault) -> set[str]:
    """Names that a fault's worker policy defines itself."""
    if fault.rank is None:
        return set()
    own = [c for c in fault.rank.__mro__ if issubclass(c, RankPolicy) and c is not RankPolicy]
    return {name for c in own for name in vars(c) if not name.startswith("__") or name == "__init__"}


def _wraps(fault: Fault) -> bool:
    from stalerow.simulator.faults.base import Fault

    return any(getattr(type(fault), name) is not getattr(Fault, name) for name in ("wrap", "wrap_align", "wrap_ops"))


def sufficient(simulation: Simulation, enabled: Sequence[str], shared: Shared) -> tuple[str, ...]:
    """The actors of which one must act next; the others' turn may come later. In canonical order."""
    for actor in enabled:
        if _meets_nobody(simulation, actor, shared):
            return (actor,)
    for actor in enabled:
        if actor.startswith("host") and not shared.devices:
            pair = {actor, actor.replace("host", "device")}
            if pair <= set(enabled):
                return tuple(a for a in enabled if a in pair)
    return tuple(enabled)


def _meets_nobody(simulation: Simulation, actor: str, shared: Shared) -> bool:
    """Whether nothing that others may do before this actor's next event conflicts with that event."""
    if actor in ("engine", "side"):
        return True
    if shared.streams or (shared.devices and actor.startswith("device")):
        return False
    if actor.startswith("host"):
        staging = simulation.ranks[int(actor[len("host") :])].staging
        # What the device will read is queued already: only this host adds to its queue.
        return not staging.next_buffers & staging.unread
    rank = simulation.ranks[int(actor[len("device") :])]
    operation = rank.queue.head()
    if not isinstance(operation, READ_STAGING) or unused(rank.queue.operations):
        return True
    return operation.step + rank.staging.depth > _last_step(simulation, operation.step)


def unused(queue: Iterable[Operation]) -> bool:
    """Whether nobody reads what the first operation of a stream writes.

    Block counts are read by gathers alone, and a step without rows has none: those of the next step replace them. All
    that stays of the order is whether the explanation of a violation names the overwritten buffer.
    """
    first, *later = queue
    if isinstance(first, BlockCounts):
        for operation in later:
            if isinstance(operation, (BlockCounts, Gather)):
                return isinstance(operation, BlockCounts)
    return False


def _last_step(simulation: Simulation, pending: int) -> int:
    """The last step that the engine can schedule before a rank has run step `pending`'s operations.

    An output is processed only once every rank has run the step's forward, and only so many steps are in flight.
    A step without rows has no forward to wait for.
    """
    plans = simulation.planner.plans
    while pending in plans and not plans[pending].step.rows:
        pending += 1
    return min(pending + simulation.max_inflight_steps - 1, simulation.schedule.limits.max_steps)
