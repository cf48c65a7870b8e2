"""A table of serving runs: the same requests through every kernel set, pipeline size and concurrency.

Runs that stay on the host are spread over processes; one that needs a GPU stays in this one. Results come back in the
order of the table, whatever finishes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from stalerow.simulator.campaign.workers import Workers
from stalerow.simulator.errors import InternalError
from stalerow.simulator.serve.job import ServeJob

T = TypeVar("T")


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
    return job.options.pipeline_parallel_size**2 * steps * (1.0 if "req-idx" in job.subject.kernels else 1.5)
