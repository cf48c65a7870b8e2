"""Block lists of recurrent groups: running and speculative columns, relocation, retirement."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt


def test_a_list_has_a_running_column_and_one_column_per_draft():
    core = engine(num_speculative_tokens=3)
    core.add_request("a", prompt(10), 4)
    assert Driver(core).schedule().block_lists["a"] == ((1, 2, 3, 4), (5, 6, 7, 8), (9,))


def test_columns_that_a_long_chunk_skips_are_null():
    core = engine(groups=hybrid(16, recurrent=1), max_num_batched_tokens=64)
    core.add_request("a", prompt(70), 4)
    assert Driver(core).schedule().block_lists["a"][0] == (0, 0, 0, 1)


def test_speculative_blocks_move_right_and_the_ranks_see_the_same_id_again():
    core = engine("0.32", groups=hybrid(8, recurrent=1), num_speculative_tokens=2, max_num_batched_tokens=32)
    core.add_request("a", prompt(20), 4)
    driver = Driver(core)
    assert driver.schedule().block_lists["a"][0] == (1, 2, 3)
    second = driver.schedule()
    assert second.block_lists["a"][0] == (1, 0, 3, 2, 6)
    assert second.cached[0].new_block_ids[0] == (2, 6)


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("drafts", [0, 2])
def test_every_scheduled_list_reaches_its_running_column_and_its_drafts(stages, drafts):
    core = engine(groups=hybrid(8), pipeline_parallel_size=stages, num_speculative_tokens=drafts)
    for name, length in (("a", 20), ("b", 33), ("c", 7)):
        core.add_request(name, prompt(length, ord(name)), 40)
    driver = Driver(core, accept=lambda row: row.num_computed_tokens % 3).run()
    for step in driver.steps:
        for row in step.rows:
            running = -(-(row.num_computed_tokens + row.num_tokens) // 8) - 1
            for blocks in step.block_lists[row.request][:2]:
                assert len(blocks) >= running + 1 + drafts
                assert all(blocks[running : running + 1 + drafts])


def test_old_states_are_retired_while_attention_keeps_everything():
    core = engine(groups=hybrid(4, recurrent=1), num_speculative_tokens=2)
    core.add_request("a", prompt(4), 60)
    driver = Driver(core, accept=lambda row: 2).run()
    lists = next(step.block_lists["a"] for step in reversed(driver.steps) if step.rows)
    assert sum(1 for block in lists[0] if block) <= 6
    assert 0 not in lists[1]


def test_states_in_reach_of_a_rejection_are_kept():
    """The column of the last settled token stays real as long as steps in flight may roll back to it."""
    core = engine(groups=hybrid(4, recurrent=1), num_speculative_tokens=3, pipeline_parallel_size=3)
    core.add_request("a", prompt(9), 60)
    driver = Driver(core)
    while driver.advance():
        request = core.request("a")
        if request is None or request.num_computed_tokens == 0 or "a" not in core.block_lists():
            continue
        settled = request.num_computed_tokens - request.num_in_flight_tokens
        if settled > 0 and not request.is_prefill_chunk and request.num_output_tokens:
            assert core.block_lists()["a"][0][(settled - 1) // 4] != 0


def test_only_attention_blocks_are_zeroed():
    core = engine()
    core.add_request("a", prompt(40), 4)
    step = Driver(core).schedule()
    assert step.zero == step.block_lists["a"][2]


def test_an_attention_only_model_zeroes_nothing():
    core = engine(groups=hybrid(16, recurrent=0))
    core.add_request("a", prompt(40), 4)
    assert Driver(core).schedule().zero == ()
