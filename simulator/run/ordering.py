"""From a schedule's `Order` to the chooser that decides its run.

PCT needs to know how many decisions a run has. A run of the host side alone counts them: no kernel's result decides
what a host or the engine does next, so launches do nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stalerow.kernels.base.binding import Binder
from stalerow.kernels.base.device import NumpyBackend
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.oracle.watch import Watch
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.worker import Worker
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers.given import GivenOrder
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.plan import Unhashed


def chooser(schedule: Schedule) -> GivenOrder:
    """Decides every question of the schedule's run as its `order` says."""
    rule = schedule.order.rule
    if isinstance(rule, msgspec.UnsetType):
        return GivenOrder(schedule.order)
    return GivenOrder(schedule.order, rule.chooser(lambda: canonical_decisions(schedule)))


def canonical_decisions(schedule: Schedule) -> int:
    """Decisions of the schedule's run in canonical order, at least 1; nothing is launched."""
    order = GivenOrder(Order())
    nothing = _Nothing()
    kernels = KernelSet("nothing", nothing, nothing, NumpyBackend())
    schedule = msgspec.structs.replace(schedule, order=Order())
    Simulation(schedule, kernels, order, rank_policy=_Unbound, watch=_Unwatched, planner=Unhashed).run()
    return max(order.decision, 1)


class _Nothing:
    """Launches of any name that do nothing, and the binder that goes with them."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self


class _Unbound(RankPolicy):
    def binder(self, rank: Worker) -> Binder:
        return cast(Binder, _Nothing())


class _Unwatched(Watch):
    def poison(self, step: Any) -> list[int]:
        return []

    def after(self, operation: Operation) -> None:
        pass

    def final(self, hashed: Mapping[int, CachedBlock]) -> None:
        pass
