"""Prefix hits: how long they are, what they share, which states are kept for them."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt


def after(release: str, first: int, **options: object) -> Driver:
    """An engine that has served a prompt of `first` tokens of stream 0."""
    core = engine(release, num_speculative_tokens=2, **options)
    core.add_request("first", prompt(first), 4)
    return Driver(core).run()


def hit(driver: Driver, tokens: list[int], name: str = "next") -> int:
    driver.core.add_request(name, tokens, 4)
    driver.run()
    return driver.admission(name).num_computed_tokens


def test_a_resend_hits_up_to_the_last_reusable_boundary():
    assert hit(after("0.32", 64), prompt(64)) == 48


def test_a_longer_sibling_hits_what_is_shared():
    assert hit(after("0.32", 64), prompt(64) + [7] * 20) == 48


def test_an_unrelated_prompt_hits_nothing():
    assert hit(after("0.32", 64), prompt(64, stream=1)) == 0


def test_a_shorter_sibling_hits_nothing_but_stops_at_the_junction_and_keeps_its_state():
    driver = after("0.32", 64)
    driver.core.add_request("short", prompt(63), 4)
    driver.run()
    admission = driver.admission("short")
    assert (admission.num_computed_tokens, admission.junction) == (0, 32)
    assert driver.chunks("short")[0] == 32
    assert hit(driver, prompt(63), "again") == 32


def test_with_lookahead_hashes_no_block_is_dropped():
    assert hit(after("0.33", 64), prompt(63)) == 48
    assert hit(after("0.33", 65), prompt(65)) == 64


def test_a_request_with_one_token_left_joins_decodes_padded_with_placeholder_drafts():
    driver = after("0.33", 65)
    assert hit(driver, prompt(65)) == 64
    row = driver.rows("next")[0]
    assert (row.num_tokens, row.num_drafts, row.is_final_or_decode) == (3, 2, True)


def test_padding_waits_for_a_batch_without_prefill():
    driver = after("0.33", 65, max_num_batched_tokens=40)
    driver.core.add_request("long", prompt(100, stream=5), 4)
    driver.schedule()
    driver.core.add_request("next", prompt(65), 4)
    driver.run()
    assert driver.rows("next")[0].num_tokens == 1


def test_a_state_cached_in_this_step_cannot_be_hit_in_it():
    core = engine("0.32", max_num_batched_tokens=200)
    core.add_request("a", prompt(64), 4)
    core.add_request("b", prompt(64), 4)
    driver = Driver(core)
    assert [row.request for row in driver.schedule().rows] == ["a"]
    assert [new.request for new in driver.schedule().new] == ["b"]
    assert driver.admission("b").num_computed_tokens == 48


def test_shared_blocks_are_the_same_blocks():
    driver = after("0.32", 64)
    driver.core.add_request("next", prompt(64), 4)
    cached = driver.core.scheduler.cache.pool.cached_blocks()
    driver.run()
    first, second, attention = driver.admission("next").block_ids
    assert first[:2] == second[:2] == (0, 0)
    assert {cached[first[2]].group, cached[second[2]].group} == {0, 1}
    assert cached[first[2]].num_tokens == cached[attention[2]].num_tokens == 48
    assert cached[first[2]].request == "first"


@pytest.mark.parametrize(("interval", "kept"), [(0, {48}), (None, {16, 32, 48, 64}), (32, {32, 48, 64})])
def test_retention_decides_which_states_keep_a_hash(interval, kept):
    """A 70-token prompt in chunks of one block: states exist at every boundary."""
    core = engine("0.32", num_speculative_tokens=2, retention_interval=interval, max_num_batched_tokens=16)
    core.add_request("a", prompt(70), 1)
    Driver(core).run()
    cached = core.scheduler.cache.pool.cached_blocks().values()
    assert {entry.num_tokens for entry in cached if entry.group == 0} == kept


def test_a_hit_inside_a_block_works_on_a_private_copy():
    driver = after("0.32", 36, prefix_match_unit=8)
    assert hit(driver, prompt(36)) == 24
    step = next(step for step in driver.steps if any(new.request == "next" for new in step.new))
    lists = driver.admission("next").block_ids
    sources = {source for source, _ in step.copies}
    assert {destination for _, destination in step.copies} == {blocks[1] for blocks in lists}
    assert sources.isdisjoint(block for blocks in lists for block in blocks)
    assert lists[2][1] in step.zero


def test_a_prompt_that_ends_inside_a_block_saves_its_state_before_it_is_overwritten():
    core = engine("0.32", num_speculative_tokens=2, prefix_match_unit=8)
    core.add_request("a", prompt(36), 4)
    driver = Driver(core).run()
    assert driver.chunks("a") == [16, 8, 8, 4]
    saving = next(step for step in driver.steps if step.copies)
    for source, destination in saving.copies:
        assert source in {block for blocks in saving.block_lists["a"] for block in blocks}
        assert saving.hashed[destination].num_tokens == 24


def test_without_prefix_caching_nothing_is_hit_and_nothing_hashed():
    driver = after("0.33", 64, enable_prefix_caching=False)
    assert hit(driver, prompt(64)) == 0
    assert not any(step.hashed for step in driver.steps)


def test_outputs_can_be_hit_by_the_next_turn():
    driver = Driver(engine("0.33", groups=hybrid(8), retention_interval=None))
    driver.core.add_request("turn", prompt(20), 30)
    driver.run()
    outputs = [500_000 + 20 + index for index in range(29)]
    assert hit(driver, prompt(20) + outputs) == 48


def test_groups_with_different_specs_are_looked_up_one_by_one():
    groups = hybrid(16)
    split = (groups[0], type(groups[1])("recurrent", 16, spec=1), groups[2])
    assert hit(after("0.32", 64, groups=split), prompt(64)) == 48


def test_a_single_group_is_hit_without_agreement():
    assert hit(after("0.33", 64, groups=hybrid(16, recurrent=0)), prompt(64)) == 48
