"""Faults of preemption: what becomes of output that is in flight when a request has to go."""

from __future__ import annotations

from typing import ClassVar

from stalerow.simulator.engine.policies import StalePolicy
from stalerow.simulator.engine.request import Request
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.schedule.values import Schedule


class _NothingStale(StalePolicy):
    def stale_tokens(self, request: Request) -> int:
        return 0


class PreemptedOutput(Fault):
    """Output in flight of a preempted request is not marked stale.

    The request is resumed at once and samples again what is in flight already; when the old output comes, it moves the
    counters of the request's new life, and its tokens are delivered beside the new ones. Needs a request that is
    preempted with work in flight and resumed before that has come in, as a cache reset with requests running does.
    """

    name = id = "preempted-output"
    summary = "output in flight of a preempted request is taken for its new life's"
    reports = ("vllm#47900", "vllm#48245")
    expected = ("broken rule", "rank divergence", "stale slot", "wrong position", "output divergence")
    engine: ClassVar = {"stale": _NothingStale}

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.async_scheduling
