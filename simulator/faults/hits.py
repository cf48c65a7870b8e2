"""Faults of prefix hits: with which cached blocks a request may start, and at which token."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from stalerow.simulator.engine.policies import HitPolicy
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.schedule.values import Schedule


class _NothingTooFresh(HitPolicy):
    def too_fresh(self, prefix: int | None, cached_this_step: Collection[int | None]) -> bool:
        return False


class HashBeforeWrite(Fault):
    """Blocks are hashed when they are allocated, and a request scheduled in the same step hits them.

    The forward of that step reads the state before anything wrote it. Needs two requests with a common prefix of a
    block or more, admitted together.
    """

    name = id = "hash-before-write"
    summary = "a recurrent state is hit in the step that computes it"
    reports = ("vllm#41838",)
    expected = ("poisoned cache",)
    launches = ("forward",)
    says = "never written since the block changed hands"
    engine: ClassVar = {"hits": _NothingTooFresh}

    def needs(self, schedule: Schedule) -> bool:
        return schedule.limits.prefix_caching and len(schedule.requests) > 1


class _AttentionDecides(HitPolicy):
    def agreed(self, candidate: int, found: int, recurrent: bool) -> int:
        return candidate if recurrent else found


class ForeignHit(Fault):
    """The hit length of the attention groups is taken for the recurrent ones too, which have no state there.

    Attention can serve any prefix of what it holds, a recurrent group only boundaries whose state was kept. Needs a
    prefix whose state was not kept.
    """

    name = id = "foreign-hit"
    summary = "a request starts at attention's hit, where the recurrent groups have no state"
    reports = ("vllm#53505",)
    expected = ("uninitialised read", "poisoned cache", "use after free")
    launches = ("forward", "precopy", "postprocess")
    engine: ClassVar = {"hits": _AttentionDecides}

    def needs(self, schedule: Schedule) -> bool:
        return schedule.limits.prefix_caching and len(schedule.requests) > 1
