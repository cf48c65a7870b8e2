"""One serving run as a value that travels to worker processes, and what runs it.

In: a job. Out: a `RunResult`; a table of jobs is `campaign.sweep`'s.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from stalerow.kernels.sets import KernelSet
from stalerow.simulator.serve.acceptance import Acceptance
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.serve.listener import Listener
from stalerow.simulator.serve.report import RunResult
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.serve.workload import ServeRequest


class Kernels(Protocol):
    """Who has kernels by name, on a device."""

    @property
    def kernels(self) -> str: ...
    def load(self) -> KernelSet:
        """Made where they run, once per process."""


class ServeJob(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `max_concurrency` 0 sends every request when it arrives."""

    subject: Kernels
    options: ServeOptions
    requests: tuple[ServeRequest, ...]
    acceptance: Acceptance
    costs: Costs
    max_concurrency: int
    seed: int


def serve(job: ServeJob, listener: Listener | None = None) -> RunResult:
    """Run one job in this process."""
    from stalerow.simulator.serve.report import summarise
    from stalerow.simulator.serve.serving import Serving

    serving = Serving(
        job.requests,
        job.options,
        job.subject.load(),
        job.acceptance,
        job.costs,
        job.max_concurrency or None,
        job.seed,
        listener,
    )
    serving.run()
    return summarise(serving, job.max_concurrency, job.seed)
