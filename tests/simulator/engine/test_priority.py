"""Policy "priority": the smaller number goes first, in the queue and when the pool runs dry."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt

from stalerow.simulator.engine.request import RequestOptions


def queue(*priorities: int, release: str = "0.34", **options: object) -> Driver:
    core = engine(release, policy="priority", **options)
    for index, priority in enumerate(priorities):
        core.add_request(f"r{index}", prompt(12, index + 1), 40, options=RequestOptions(priority=priority))
    return Driver(core, accept=lambda row: 2)


def crowded(*priorities: int, **options: object) -> Driver:
    """Requests that outgrow the pool while they decode."""
    small = {"groups": hybrid(4, recurrent=1), "num_blocks": 40, "enable_prefix_caching": False}
    return queue(*priorities, **small, num_speculative_tokens=2, pipeline_parallel_size=2, **options)


def until_preemption(driver: Driver) -> Driver:
    while not (driver.steps and driver.steps[-1].preempted):
        assert driver.advance()
    return driver


def test_the_urgent_are_admitted_first_and_of_equals_the_first_to_arrive():
    driver = queue(1, 0, 1, -1, max_num_seqs=3, max_num_batched_tokens=512)
    driver.schedule()
    assert driver.core.running == ("r3", "r1", "r0")
    assert driver.core.waiting == ("r2",)


def test_first_come_first_served_ignores_priorities():
    core = engine(max_num_seqs=1)
    core.add_request("late", prompt(4, 1), 2, options=RequestOptions(priority=5))
    core.add_request("urgent", prompt(4, 2), 2, options=RequestOptions(priority=0))
    Driver(core).schedule()
    assert core.running == ("late",)


def test_the_least_urgent_goes_wherever_it_stands():
    driver = crowded(2, 1, 0)
    driver.schedule()
    driver.core.scheduler.running.sort(key=lambda request: request.id)
    until_preemption(driver)
    assert driver.steps[-1].preempted == ("r0",)
    assert driver.core.running == ("r1", "r2")


def test_what_a_victim_was_given_in_the_same_step_is_taken_back():
    core = engine("0.34", policy="priority", groups=hybrid(4, recurrent=0), num_blocks=9, max_num_batched_tokens=32)
    core.add_request("first", prompt(13, 1), 9, options=RequestOptions(priority=1))
    core.add_request("urgent", prompt(16, 2), 9, options=RequestOptions(priority=0))
    driver = Driver(core)
    driver.schedule()
    core.scheduler.running.sort(key=lambda request: request.id)
    step = until_preemption(driver).steps[-1]
    # A token of the first still fits its blocks; the urgent one needs another block, and takes the first's.
    assert step.preempted == ("first",)
    assert [row.request for row in step.rows] == [known.request for known in step.cached] == ["urgent"]
    assert "first" not in step.block_lists


@pytest.mark.parametrize(("release", "others"), [("0.32", False), ("0.34", True)])
def test_a_request_that_preempted_itself_ends_the_pass_up_to_0_32(release, others):
    core = engine(release, policy="priority", groups=hybrid(4, recurrent=0), num_blocks=9, enable_prefix_caching=False)
    for name, priority in (("big", 1), ("small", 0)):
        core.add_request(name, prompt(14, priority + 1), 20, options=RequestOptions(priority=priority))
    driver = Driver(core)
    driver.schedule()
    core.scheduler.running.sort(key=lambda request: request.id)
    step = until_preemption(driver).steps[-1]
    assert step.preempted == ("big",)
    assert bool(step.rows) is others


def test_a_preempted_request_takes_its_place_in_the_order_not_the_front():
    driver = until_preemption(crowded(0, 1, 2))
    driver.core.add_request("urgent", prompt(4, 9), 2, options=RequestOptions(priority=-1))
    assert driver.core.waiting == ("urgent", "r2")


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="policy 'lottery': expected 'fcfs' or 'priority'"):
        engine(policy="lottery")
