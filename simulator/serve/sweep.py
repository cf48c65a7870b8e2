"""A table of serving runs: the same requests through every kernel set, pipeline size and concurrency.

Runs that stay on the host are spread over processes; one that needs a GPU stays in this one. Results come back in the
order of the table, whatever finishes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from stalerow.simulator.campaign.workers import Workers
from stalerow.simulator.errors import InternalError
from stalerow.simulator.serve.acceptance import Acceptance
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.serve.listener import Listener
from stalerow.simulator.serve.report import RunResult
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.serve.workload import ServeRequest

T = TypeVar("T")


class ServeJob(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `max_concurrency` 0 sends every request when it arrives."""

    kernels: str
    device: str
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
    from stalerow.simulator.subject.subject import Subject

    kernels = Subject(kernels=job.kernels, device=job.device).load()
    serving = Serving(
        job.requests, job.options, kernels, job.acceptance, job.costs, job.max_concurrency or None, job.seed, listener
    )
    serving.run()
    return summarise(serving, job.max_concurrency, job.seed)


def run_jobs(
    jobs: Sequence[ServeJob], workers: int, work: Callable[[ServeJob], T], done: Callable[[], None] = lambda: None
) -> list[T]:
    """What `work` makes of each job, in the order of `jobs`. `done` is called after each run."""
    if workers == 1 or len(jobs) == 1:
        results = []
        for job in jobs:
            results.append(work(job))
            done()
        return results
    # The longest runs first: most ranks, and kernels that may lose drafts.
    order = sorted(range(len(jobs)), key=lambda i: -_weight(jobs[i]))
    found: dict[int, T] = {}
    with Workers(min(workers, len(jobs)), work) as processes:
        tickets = {processes.submit(jobs[i]): i for i in order}
        while processes.running:
            for ended in processes.wait():
                if ended.died:
                    why = f"a worker process {ended.died}, twice, most likely of a wild copy"
                    raise InternalError(f"{why}; run with --jobs 1 to see it")
                if ended.error is not None:
                    raise ended.error
                found[tickets[ended.ticket]] = ended.value
                done()
    return [found[i] for i in range(len(jobs))]


def _weight(job: ServeJob) -> float:
    steps = 1 / (job.max_concurrency or len(job.requests))
    return job.options.pipeline_parallel_size**2 * steps * (1.0 if "req-idx" in job.kernels else 1.5)
