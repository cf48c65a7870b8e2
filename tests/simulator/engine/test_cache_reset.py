"""Resets of the prefix cache: what is forgotten, who is preempted, and which output is dropped."""

import pytest
from engine_driver import Driver, engine, prompt

from stalerow.simulator.engine.request import Request


def running(stages: int = 2) -> Driver:
    """Two requests in mid-decode with a step in flight."""
    core = engine("0.34", pipeline_parallel_size=stages, num_speculative_tokens=2)
    for name, stream in (("a", 1), ("b", 2)):
        core.add_request(name, prompt(40, stream), 30)
    driver = Driver(core, accept=lambda row: 1)
    while driver.outputs.get("b", 0) < 6 or not any(step.rows for step in core.inflight_steps):
        driver.advance()
    return driver


def test_an_idle_engine_forgets_every_prefix():
    core = engine("0.34")
    core.add_request("a", prompt(64), 2)
    driver = Driver(core).run()
    assert core.scheduler.cache.pool.cached_blocks()
    assert core.reset_prefix_cache(reset_running_requests=False)
    assert not core.scheduler.cache.pool.cached_blocks()
    core.add_request("b", prompt(64), 2)
    assert driver.run().admission("b").num_computed_tokens == 0


def test_nothing_is_forgotten_while_requests_hold_blocks():
    driver = running()
    before = driver.core.scheduler.cache.pool.cached_blocks()
    assert not driver.core.reset_prefix_cache(reset_running_requests=False)
    assert driver.core.scheduler.cache.pool.cached_blocks() == before != {}
    assert driver.core.running == ("a", "b")


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_running_requests_leave_and_come_back_in_one_step(stages):
    driver = running(stages)
    assert driver.core.reset_prefix_cache(reset_running_requests=True)
    assert driver.core.waiting == ("a", "b")
    while not driver.core.can_schedule:
        driver.process()
    step = driver.schedule()
    assert step.preempted == ("a", "b")
    assert [new.request for new in step.new if new.resumed] == ["a", "b"]
    assert {new.num_computed_tokens for new in step.new} == {0}


def test_output_in_flight_is_dropped():
    driver = running()
    inflight = driver.core.inflight_steps
    assert any(row.is_final_or_decode for step in inflight for row in step.rows)
    driver.core.reset_prefix_cache(reset_running_requests=True)
    assert [driver.process().outputs for _ in inflight] == [{}] * len(inflight)


def test_every_request_still_gets_all_its_tokens():
    driver = running()
    driver.core.reset_prefix_cache(reset_running_requests=True)
    driver.run()
    assert driver.outputs == {"a": 30, "b": 30}


def test_what_is_to_be_dropped_stays_so_when_the_request_is_preempted_before_it_is_in():
    driver = running(stages=4)
    request = driver.core.request("b")
    driver.core.reset_prefix_cache(reset_running_requests=True)
    while not driver.core.can_schedule:
        driver.process()
    driver.schedule()
    assert request.num_stale_output_tokens
    preempt(driver, request)
    assert request.drops_stale_output
    while request.num_stale_output_tokens:
        driver.process()
    driver.schedule()
    preempt(driver, request)
    assert not request.drops_stale_output


def preempt(driver: Driver, request: Request) -> None:
    driver.core.scheduler.running.remove(request)
    driver.core.scheduler._preempt(request)


def test_a_synchronous_engine_takes_the_drafts_of_a_dropped_output():
    """As 0.32 to 0.34 do: the next row of the request has drafts and no token of its own."""
    core = engine("0.34", pipeline_parallel_size=2, num_speculative_tokens=2, async_scheduling=False)
    core.add_request("a", prompt(1), 3)
    driver = Driver(core)
    driver.schedule()
    core.reset_prefix_cache(reset_running_requests=True)
    driver.schedule()
    assert driver.process().outputs == {}
    step = driver.schedule()
    assert [(row.num_tokens, row.num_drafts, row.num_computed_tokens) for row in step.rows] == [(2, 2, 1)]
