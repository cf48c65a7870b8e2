"""Who watches a serving run: what `serving` tells, and when in virtual time it happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.rank.v2 import RankV2


class Listener(Protocol):
    """Told of every event with its start and end, in microseconds."""

    def scheduled(self, step: Step, inflight: int, start: int, end: int) -> None: ...

    def processed(self, step: Step, delivered: Delivered, inflight: int, start: int, end: int) -> None: ...

    def prepared(self, rank: RankV2, step: Step, fresh: Sequence[Operation], start: int, end: int) -> None: ...

    def executed(self, rank: RankV2, operation: Operation, side: bool, start: int, end: int) -> None: ...

    def damaged(self, step: int) -> None:
        """The forward of `step` was the first to meet damage."""
