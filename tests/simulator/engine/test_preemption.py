"""Preemption and resumption: who goes, what is still delivered, when it comes back."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt


def crowded(release: str = "0.32", stages: int = 2) -> Driver:
    """Three requests that outgrow the pool while they decode."""
    core = engine(
        release,
        groups=hybrid(4, recurrent=1),
        num_blocks=40,
        num_speculative_tokens=2,
        pipeline_parallel_size=stages,
        enable_prefix_caching=False,
    )
    for name, stream in (("a", 1), ("b", 2), ("c", 3)):
        core.add_request(name, prompt(12, stream), 40)
    return Driver(core, accept=lambda row: 2)


def until_preemption(driver: Driver) -> Driver:
    while not (driver.steps and driver.steps[-1].preempted):
        assert driver.advance()
    return driver


def test_the_last_running_request_is_preempted_and_goes_to_the_head_of_the_queue():
    driver = until_preemption(crowded())
    assert driver.steps[-1].preempted == ("c",)
    assert driver.core.running == ("a", "b")
    assert driver.core.waiting == ("c",)
    assert "c" not in driver.steps[-1].block_lists


def test_its_blocks_can_be_handed_out_in_the_same_schedule():
    driver = until_preemption(crowded())
    before, after = driver.steps[-2:]
    gone = {block for blocks in before.block_lists["c"] for block in blocks if block}
    now = {block for lists in after.block_lists.values() for blocks in lists for block in blocks}
    assert gone & now


def test_output_in_flight_is_delivered_but_touches_no_counter():
    driver = until_preemption(crowded())
    request = driver.core.request("c")
    stale, had = request.num_stale_output_tokens, driver.outputs["c"]
    assert stale == request.num_in_flight_tokens > 0
    while request.num_stale_output_tokens:
        driver.process()
        assert (request.num_computed_tokens, request.num_output_placeholders) == (0, 0)
    assert driver.outputs["c"] > had


def test_it_does_not_resume_before_its_output_is_in():
    driver = until_preemption(crowded())
    number = driver.steps[-1].number
    for name in ("a", "b"):
        driver.core.abort([name])
    request = driver.core.request("c")
    while driver.core.waiting:
        assert driver.advance()
        if request.num_stale_output_tokens:
            assert driver.core.waiting == ("c",)
    assert driver.steps[-1].number > number


def test_it_comes_back_as_a_new_request_that_replays_its_outputs():
    driver = crowded().run()
    resumed = [new for step in driver.steps for new in step.new if new.resumed]
    assert resumed
    assert all(len(new.prefill_token_ids) > new.prompt_len == 12 for new in resumed)
    assert driver.outputs == {"a": 40, "b": 40, "c": 40}


@pytest.mark.parametrize(("release", "order"), [("0.33", ["new", "b"]), ("0.34", ["b", "new"])])
def test_fresh_requests_go_to_the_ranks_before_resumed_ones_up_to_0_33(release, order):
    core = engine(
        release, groups=hybrid(4, recurrent=1), num_blocks=40, enable_prefix_caching=False, max_num_batched_tokens=200
    )
    for name, stream in (("a", 1), ("b", 2)):
        core.add_request(name, prompt(12, stream), 80)
    driver = until_preemption(Driver(core))
    driver.core.abort(["a"])
    while driver.core.request("b").num_stale_output_tokens:
        driver.process()
    driver.core.add_request("new", prompt(8, 9), 4)
    driver.run()
    both = next(step for step in driver.steps if len(step.new) == 2 and step.number > 1)
    assert [new.request for new in both.new] == order
    assert [row.request for row in both.rows] == ["b", "new"]


def test_a_request_may_have_to_preempt_itself():
    core = engine(groups=hybrid(4, recurrent=1), num_blocks=8, enable_prefix_caching=False, reserve_full_isl=False)
    core.add_request("a", prompt(12), 60)
    driver = Driver(core).run()
    assert any(step.preempted == ("a",) and not step.rows for step in driver.steps)
