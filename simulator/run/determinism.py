"""Where two runs of one schedule part: runs it twice and compares, at every decision, who can act and all memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stalerow.kernels.base.fingerprint import pages_fingerprint, values_fingerprint
from stalerow.simulator.oracle.judge import DIGESTED
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.run.ordering import chooser
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers.checking import CheckingOrder, Met, Parting
from stalerow.simulator.schedule.values import Schedule


def parting(schedule: Schedule, run: Callable[..., Any]) -> Parting | None:
    """The first decision at which two more runs differ, None if they do not.

    `run` takes a schedule and the options `observer` and `order` of `outcome.run`.
    """
    first = _checked(schedule, run, None)
    return _checked(schedule, run, first.met).parting()


def _checked(schedule: Schedule, run: Callable[..., Any], before: Sequence[Met] | None) -> CheckingOrder:
    memory: dict[int, int] = {}

    def watch(simulation: Simulation, actor: str, done: Any) -> None:
        if actor.startswith("device"):
            rank = simulation.ranks[int(actor[len("device") :])]
            memory[rank.index] = _fingerprint(rank)

    order = CheckingOrder(chooser(schedule), before, lambda: hash(tuple(sorted(memory.items()))))
    run(schedule, observer=watch, order=order)
    return order


def _fingerprint(rank: Rank) -> int:
    """Of the memory that a run's digest covers."""
    host = rank.backend.to_host
    slots = (values_fingerprint(host(getattr(rank.slots, name)), i) for i, name in enumerate(DIGESTED))
    return hash((pages_fingerprint(rank.pool.pages(host(rank.pool.array))), *slots))
