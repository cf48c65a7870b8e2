"""The engine core's loop, its FIFO, aborts, finishes and the signs of a stuck run."""

from itertools import pairwise

import pytest
from engine_driver import Driver, engine, hybrid, prompt

from stalerow.simulator.engine import EngineConfig, EngineCore


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_steady_state_has_one_step_in_flight_per_stage_and_one_more(stages):
    core = engine(pipeline_parallel_size=stages)
    core.add_request("a", prompt(20), 30)
    driver = Driver(core)
    deepest = 0
    while driver.advance():
        deepest = max(deepest, len(core.inflight))
    assert deepest == stages + 1


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_decodes_of_one_request_are_one_round_of_stages_apart(stages):
    core = engine(pipeline_parallel_size=stages, num_speculative_tokens=2)
    core.add_request("a", prompt(20), 30)
    driver = Driver(core).run()
    numbers = [step.number for step in driver.steps if step.rows and step.rows[0].is_final_or_decode]
    assert {later - earlier for earlier, later in pairwise(numbers)} == {stages}


def test_the_count_sent_for_a_decode_is_optimistic_by_the_decode_in_flight():
    core = engine(pipeline_parallel_size=2, num_speculative_tokens=3)
    core.add_request("a", prompt(20), 60)
    accepted = []

    def accept(row):
        accepted.append(min(row.num_computed_tokens % 3, row.num_drafts))
        return accepted[-1]

    rows = [row for row in Driver(core, accept).run().rows("a") if row.is_final_or_decode]
    assert len(rows) > 10
    for one, two, three, count in zip(rows, rows[1:], rows[2:], accepted):
        rejected = one.num_drafts - count
        assert three.num_computed_tokens == two.num_computed_tokens + two.num_tokens - rejected


def test_outputs_past_the_cap_are_dropped_and_an_overshooting_decode_is_ignored():
    core = engine(pipeline_parallel_size=2, num_speculative_tokens=4)
    core.add_request("a", prompt(20), 8)
    driver = Driver(core, accept=lambda row: 4).run()
    assert driver.outputs == {"a": 8}
    assert driver.reasons == {"a": "length"}
    assert any("a" in delivered.ignored for delivered in driver.delivered)


def test_a_stop_token_ends_a_request_in_the_middle_of_accepted_drafts():
    core = engine(num_speculative_tokens=4)
    core.add_request("a", prompt(20), 50, stop_token_ids=[500_023])
    driver = Driver(core, accept=lambda row: 4).run()
    assert driver.outputs == {"a": 4}
    assert driver.reasons == {"a": "stop"}


def test_a_request_ends_at_the_model_length():
    core = engine(max_model_len=40, num_speculative_tokens=2)
    core.add_request("a", prompt(30), 100)
    driver = Driver(core, accept=lambda row: 2).run()
    assert driver.outputs == {"a": 10}
    assert max(row.num_computed_tokens + row.num_tokens for row in driver.rows("a")) < 40


def test_an_abort_frees_blocks_at_once_and_its_output_in_flight_is_ignored():
    core = engine(pipeline_parallel_size=2)
    core.add_request("a", prompt(20), 30)
    driver = Driver(core)
    driver.schedule()
    assert core.abort(["a", "unknown", "a"]) == ("a",)
    assert core.num_free_blocks == 199
    assert core.request("a") is None
    assert driver.schedule().finished == ("a",)
    assert driver.process().ignored == ("a",)
    assert not core.idle
    driver.run()
    assert core.idle


def test_an_aborted_request_can_be_sent_again_under_its_id():
    core = engine()
    core.add_request("a", prompt(20), 30)
    Driver(core).schedule()
    core.abort(["a"])
    core.add_request("a", prompt(5), 3)
    assert Driver(core).run().outputs == {"a": 3}


def test_finished_ids_are_told_once_even_if_nothing_else_is_left():
    core = engine()
    core.add_request("a", prompt(20), 1)
    driver = Driver(core).run()
    assert [step.finished for step in driver.steps if step.finished] == [("a",)]
    assert core.idle
    assert not core.has_requests


def test_misuse_is_an_error_and_changes_nothing():
    core = engine()
    with pytest.raises(RuntimeError, match="nothing to schedule"):
        core.schedule()
    with pytest.raises(RuntimeError, match="no step in flight"):
        core.process({})
    core.add_request("a", prompt(20), 10)
    core.schedule()
    core.schedule()
    with pytest.raises(RuntimeError, match="the FIFO is full"):
        core.schedule()
    assert core.inflight == (1, 2)


def test_a_pool_too_small_for_the_head_of_the_queue_is_reported_as_starved():
    core = engine(groups=hybrid(4, recurrent=1), num_blocks=10)
    core.add_request("big", prompt(60), 10)
    core.add_request("small", prompt(4), 10)
    driver = Driver(core).run()
    assert core.starved
    assert len(driver.steps) < 5
    core.abort(["big"])
    assert not core.starved
    assert driver.run().outputs == {"small": 10}


def test_waiting_for_the_next_round_of_stages_is_not_starving():
    core = engine(pipeline_parallel_size=4)
    core.add_request("a", prompt(8), 10)
    driver = Driver(core)
    driver.schedule()
    driver.process()
    assert not driver.schedule().rows
    assert not core.starved


def test_more_tokens_than_a_row_can_return_are_refused():
    core = engine(num_speculative_tokens=2)
    core.add_request("a", prompt(8), 10)
    core.schedule()
    with pytest.raises(ValueError, match="2 tokens sampled for request 'a' in step 1: expected at most 1"):
        core.process({"a": [1, 2]})
    with pytest.raises(ValueError, match="1 tokens sampled for request 'b' in step 1: expected at most 0"):
        core.process({"b": [1]})


def test_a_request_that_preempts_itself_for_ever_is_seen_by_the_count_of_undelivered_steps():
    core = engine(
        groups=hybrid(4, recurrent=1),
        num_blocks=9,
        enable_prefix_caching=False,
        reserve_full_isl=False,
        max_num_batched_tokens=8,
    )
    core.add_request("a", prompt(60), 10)
    driver = Driver(core).run(limit=300)
    assert not core.starved
    assert driver.outputs == {}
    assert core.schedules_since_delivery > 100


def test_equal_inputs_give_equal_steps():
    def steps():
        core = engine("0.32", groups=hybrid(4), num_blocks=60, num_speculative_tokens=2, pipeline_parallel_size=2)
        for index in range(6):
            core.add_request(f"r{index}", prompt(10 + index, index % 2), 20)
        return Driver(core, accept=lambda row: row.num_computed_tokens % 3).run().steps

    assert steps() == steps()


def test_a_core_can_be_made_from_a_profile_name():
    core = EngineCore(EngineConfig(hybrid(), 100), "vllm==0.32.0")
    assert core.profile.name == "0.32"
