"""Where prefill chunks end: block boundaries, the last cacheable position, junctions, limits."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt


def chunks(length: int, release: str = "0.32", **options: object) -> list[int]:
    core = engine(release, **options)
    core.add_request("a", prompt(length), 1)
    return Driver(core).run().chunks("a")


@pytest.mark.parametrize(
    ("length", "expected"), [(37, [16, 21]), (64, [48, 16]), (50, [32, 18]), (17, [17]), (31, [31])]
)
def test_with_drafts_a_prompt_stops_one_block_before_its_last_boundary(length, expected):
    assert chunks(length, num_speculative_tokens=2) == expected


@pytest.mark.parametrize(("length", "expected"), [(17, [16, 1]), (32, [16, 16]), (16, [16]), (15, [15])])
def test_without_drafts_a_prompt_stops_at_its_last_boundary(length, expected):
    assert chunks(length) == expected


def test_with_lookahead_hashes_drafts_do_not_cost_a_block():
    assert chunks(37, "0.33", num_speculative_tokens=2) == [32, 5]


def test_chunks_of_a_long_prompt_end_on_block_boundaries():
    assert chunks(100, max_num_batched_tokens=40) == [32, 32, 32, 4]


def test_a_block_wider_than_the_budget_is_filled_in_parts_and_realigned():
    assert chunks(70, groups=hybrid(32), max_num_batched_tokens=20) == [20, 12, 20, 12, 6]


def test_the_clip_grid_is_the_recurrent_block_size_not_the_schedulers():
    wide_attention = hybrid(8, attention_block_size=32)
    assert chunks(60, groups=wide_attention, max_num_batched_tokens=24) == [24, 24, 8, 4]


def test_an_attention_only_model_is_not_clipped():
    assert chunks(50, groups=hybrid(16, recurrent=0), max_num_batched_tokens=30) == [30, 20]


def test_the_long_prefill_threshold_applies_only_beside_other_requests():
    options = {"long_prefill_token_threshold": 16, "max_num_batched_tokens": 64}
    assert chunks(64, **options) == [48, 16]
    core = engine("0.32", **options)
    core.add_request("a", prompt(64), 1)
    core.add_request("b", prompt(8, stream=1), 1)
    assert Driver(core).run().chunks("a")[:2] == [16, 16]


def test_a_chunk_may_follow_its_predecessor_in_the_next_step():
    core = engine(pipeline_parallel_size=4, max_num_batched_tokens=16)
    core.add_request("a", prompt(64), 2)
    driver = Driver(core).run()
    assert [step.number for step in driver.steps if step.rows][:4] == [1, 2, 3, 4]
