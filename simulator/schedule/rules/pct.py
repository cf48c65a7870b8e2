"""The priority-based chooser (PCT, Burckhardt et al. 2010): random priorities, and a few points where they change.

An order of events that needs only d constraints to go wrong is found with probability at least 1/(n k^(d-1)), n actors
and k decisions, where uniform choices would almost never find it. Used for the order of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stalerow.simulator.schedule.choosers import Pending
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.rules.base import Rule


class Priorities(Rule, frozen=True, kw_only=True, tag="pct"):
    """PCT (Burckhardt et al. 2010): a priority for each actor, and `depth` - 1 decisions at which one falls behind.

    horizon: the change points lie among so many decisions; None measures a run of the same schedule in canonical order.
    """

    seed: int
    depth: int = 3
    horizon: int | None = None

    def chooser(self, decisions: Callable[[], int]) -> PriorityOrder:
        return PriorityOrder(self.seed, self.depth, decisions() if self.horizon is None else self.horizon)

    def objection(self) -> str:
        if self.depth < 1:
            return f"depth is {self.depth}: give at least 1"
        if self.horizon is not None and self.horizon < 1:
            return f"horizon is {self.horizon}: give at least 1"
        return ""


class PriorityOrder:
    """The enabled actor of highest priority acts. `depth` - 1 decisions among the first `horizon` demote the actor
    that would have acted to below all others. Decisions are counted as in `GivenOrder`."""

    def __init__(self, seed: int, depth: int, horizon: int) -> None:
        self._random = SeededChooser(seed)
        self._priority: dict[str, int] = {}
        self._changes = {self._random.pick(horizon, "change point") for _ in range(depth - 1)}
        self._lowest = 0
        self._decision = 0

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        for actor in enabled:
            if actor not in self._priority:
                self._priority[actor] = 1 + self._random.pick(1 << 32, "priority")
        if self._decision in self._changes:
            self._lowest -= 1
            self._priority[max(enabled, key=self._priority.__getitem__)] = self._lowest
        self._decision += 1
        return max(range(len(enabled)), key=lambda i: self._priority[enabled[i]])
