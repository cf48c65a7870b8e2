"""Shrinking a workload on which engines differ: what the difference does not need goes, whoever judges it."""

from stalerow.simulator.conform.reduce import reduce
from stalerow.simulator.conform.workloads import random_task


def test_one_request_is_left_with_the_smallest_numbers():
    small, tried = reduce(random_task(0), lambda t: any(r["max_tokens"] >= 3 for r in t[1]["requests"]))
    options, workload = small
    (request,) = workload["requests"]
    assert (request["arrival"], request["prompt_len"], request["max_tokens"]) == (1, 1, 3)
    assert "share" not in request
    assert workload["aborts"] == []
    assert (options["P"], options["max_num_seqs"], options["retention_interval"]) == (1, 1, 0)
    assert tried <= 300


def test_what_the_difference_needs_stays():
    task = random_task(0)
    kept = task[0]["watermark"]
    assert kept
    small, _ = reduce(task, lambda t: t[0]["watermark"] == kept and len(t[1]["requests"]) >= 2)
    assert small[0]["watermark"] == kept
    assert len(small[1]["requests"]) == 2


def test_shrinking_is_repeatable_and_bounded():
    def differs(task):
        return len(task[1]["requests"]) >= 2

    assert reduce(random_task(5), differs, budget=25) == reduce(random_task(5), differs, budget=25)
    assert reduce(random_task(5), differs, budget=25)[1] <= 25


def test_a_difference_that_does_not_come_back_keeps_its_workload():
    task = random_task(3)
    assert reduce(task, lambda _: False) == (task, 1)
