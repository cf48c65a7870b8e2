"""A table of serving runs: the same requests through every kernel set, pipeline size and concurrency.

Runs that stay on the host are spread over processes; one that needs a GPU stays in this one. Results come back in the
order of the table, whatever finishes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

import msgspec

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
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(work, jobs[i]): i for i in order}
        try:
            for future in as_completed(waiting):
                found[waiting[future]] = future.result()
                done()
        except BrokenProcessPool:
            raise InternalError(
                "a worker process died, most likely of a wild copy; run with --jobs 1 to see it"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [found[i] for i in range(len(jobs))]


def _weight(job: ServeJob) -> float:
    steps = 1 / (job.max_concurrency or len(job.requests))
    return job.options.pipeline_parallel_size**2 * steps * (1.0 if "req-idx" in job.kernels else 1.5)
