"""A table of serving runs: results in the order of the table whatever ends first, and what a worker's end means."""

import os

import pytest

from stalerow.simulator.campaign.sweep import run_jobs
from stalerow.simulator.errors import InternalError
from stalerow.simulator.serve.acceptance import from_mean
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.serve.job import ServeJob
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.subject.subject import Subject


def job(seed: int, pp: int = 1) -> ServeJob:
    return ServeJob(
        subject=Subject(kernels="reference:req-idx"),
        options=ServeOptions(pipeline_parallel_size=pp),
        requests=(),
        acceptance=from_mean(2.0, 4),
        costs=Costs(),
        max_concurrency=1,
        seed=seed,
    )


def seed_of(given: ServeJob) -> int:
    return given.seed


def ends(given: ServeJob) -> int:
    os._exit(given.seed)


def raises(given: ServeJob) -> int:
    raise LookupError(f"no {given.seed}")


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_table(workers):
    done = []
    jobs = [job(5), job(6, pp=4), job(7, pp=2)]
    assert run_jobs(jobs, workers, seed_of, lambda: done.append(1)) == [5, 6, 7]
    assert len(done) == 3


def test_what_a_run_raises_ends_the_table():
    with pytest.raises(InternalError, match="no 8"):
        run_jobs([job(8), job(8)], 2, raises)


def test_a_worker_that_dies_is_an_internal_error_with_a_remedy():
    with pytest.raises(InternalError, match="run with --jobs 1 to see it"):
        run_jobs([job(9), job(9)], 2, ends)
