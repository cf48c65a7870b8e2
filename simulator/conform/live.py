"""Live comparison: random workloads through an installed vLLM's own scheduler and through our engine.

A child process of the environment under comparison runs `driver` and answers one workload after the other;
its records are compared like recorded ones. In: the environment's Python and seeds. Out: one `Conformance`
per seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from stalerow.simulator.conform.agreement import Conformance, trace_agreement
from stalerow.simulator.conform.child import Child, EngineRaised, LiveError
from stalerow.simulator.conform.trace import Trace
from stalerow.simulator.conform.workloads import Task, random_task
from stalerow.simulator.engine import Profile

__all__ = ["EngineRaised", "LiveError", "LiveScheduler", "conform_live", "live_agreement"]


class LiveScheduler(Child):
    """A released scheduler in a child process that runs whole workloads; use as a context manager."""

    def run(self, options: Mapping[str, Any], workload: Mapping[str, Any]) -> Trace:
        """Let the released scheduler run a workload. LiveError if vLLM raises or the child is gone."""
        return msgspec.convert(self.ask({"config": options, "workload": workload}), Trace)


def conform_live(
    scheduler: LiveScheduler, seeds: Iterable[int], profile: Profile | str | None = None
) -> Iterator[Conformance]:
    """Compare random workloads, one per seed, as they finish."""
    for seed in seeds:
        yield live_agreement(scheduler, f"seed {seed}", random_task(seed), profile)


def live_agreement(
    scheduler: LiveScheduler, name: str, task: Task, profile: Profile | str | None = None
) -> Conformance:
    """Compare one workload, given with its options.

    A workload that makes vLLM itself raise is no difference: the result says where it raised. `LiveError` if its engine
    could not be made.
    """
    options, workload = task
    try:
        trace = scheduler.run(options, workload)
    except EngineRaised as error:
        return Conformance(name, scheduler.version, 0, 0, 0, None, raised=str(error))
    return trace_agreement(name, trace, profile)
