"""A prefill's last chunk may save the state that a replay resumes from on its way, instead of stopping there."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt

from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.profiles import profile
from stalerow.simulator.engine.rules import CacheRules


def states(driver: Driver, request: str) -> tuple[int, ...]:
    """The request's list in the recurrent group after the last step."""
    return driver.steps[-1].block_lists[request][0]


@pytest.mark.parametrize("release", ["0.32", "0.33", "0.34"])
def test_the_last_chunk_runs_past_the_reusable_boundary_and_has_a_block_for_its_state(release):
    options = {"groups": hybrid(8, recurrent=1), "max_num_batched_tokens": 64}
    plain, saving = engine(release, **options), engine(release, **options, prefill_checkpoint_alignment=1)
    driver, other = Driver(plain), Driver(saving)
    for core in (plain, saving):
        core.add_request("a", prompt(29), 3)
    driver.run()
    assert driver.chunks("a") == [24, 5]
    step = other.schedule()
    assert [row.num_tokens for row in step.rows] == [29]
    assert step.block_lists["a"][0] == (0, 0, 1, 2)
    assert step.hashed[1].num_tokens == 24
    assert 2 not in step.hashed


def test_a_later_request_resumes_from_the_state_that_was_saved_inside():
    core = engine("0.34", groups=hybrid(8, recurrent=1), max_num_batched_tokens=64, prefill_checkpoint_alignment=8)
    core.add_request("a", prompt(29), 2)
    driver = Driver(core).run()
    core.add_request("b", prompt(29), 2)
    driver.run()
    admitted = driver.admission("b")
    assert (admitted.num_computed_tokens, admitted.block_ids[0][2]) == (24, 1)


def test_a_partial_boundary_is_saved_under_its_own_hash_and_no_other():
    """Hits may end at half a block here, so the saved state is of 28 tokens, in the column of 24 to 32."""
    core = engine(
        "0.34",
        groups=hybrid(8, recurrent=1, attention_block_size=4),
        max_num_batched_tokens=64,
        prefill_checkpoint_alignment=4,
        retention_interval=None,
    )
    core.add_request("a", prompt(35), 2)
    driver = Driver(core)
    step = driver.schedule()
    assert [row.num_tokens for row in step.rows] == [35]
    assert step.block_lists["a"][0] == (0, 0, 0, 1, 2)
    assert step.hashed[1].num_tokens == 32
    core = engine(
        "0.34",
        groups=hybrid(8, recurrent=1, attention_block_size=4),
        max_num_batched_tokens=64,
        prefill_checkpoint_alignment=4,
        retention_interval=None,
    )
    core.add_request("a", prompt(31), 2)
    step = Driver(core).schedule()
    assert step.block_lists["a"][0] == (0, 0, 1, 2)
    assert step.hashed[1].num_tokens == 28


def test_the_chunk_stops_as_before_where_the_state_is_off_the_backends_grid():
    core = engine("0.34", groups=hybrid(8, recurrent=1), max_num_batched_tokens=64, prefill_checkpoint_alignment=16)
    core.add_request("a", prompt(29), 2)
    assert Driver(core).run().chunks("a") == [24, 5]


def test_a_speculative_block_in_the_column_stays_where_the_ranks_know_it():
    """The ranks' rows are append-only: a block that moved on would be written by the old column's state."""
    options = {"groups": hybrid(8, recurrent=1), "num_speculative_tokens": 2, "max_num_batched_tokens": 16}
    core = engine("0.34", **options, prefill_checkpoint_alignment=1)
    core.add_request("a", prompt(30), 4)
    driver = Driver(core)
    driver.schedule()
    assert states(driver, "a") == (0, 1, 2, 3)
    driver.schedule()
    assert driver.chunks("a") == [16, 14]
    assert states(driver, "a")[:4] == (0, 1, 2, 3)
    assert not {*states(driver, "a")[4:]} & {1, 2, 3}


def test_every_chunk_saves_one_where_every_boundary_is_kept():
    options = {"groups": hybrid(8, recurrent=1), "max_num_batched_tokens": 24, "prefill_checkpoint_alignment": 8}
    kept = Driver(engine("0.34", **options, retention_interval=None))
    kept.core.add_request("a", prompt(70), 2)
    assert kept.schedule().block_lists["a"][0] == (0, 1, 2)
    sparse = Driver(engine("0.34", **options, retention_interval=0))
    sparse.core.add_request("a", prompt(70), 2)
    assert sparse.schedule().block_lists["a"][0] == (0, 0, 1)


def test_the_saved_state_is_given_up_once_its_chunk_is_processed():
    core = engine("0.34", groups=hybrid(8, recurrent=1), max_num_batched_tokens=64, prefill_checkpoint_alignment=8)
    core.add_request("a", prompt(29), 5)
    driver = Driver(core)
    driver.schedule()
    assert states(driver, "a")[2] == 1
    driver.process()
    driver.schedule()
    assert states(driver, "a")[2] == 0
    assert driver.steps[-1].hashed[1].num_tokens == 24


@pytest.mark.parametrize(
    ("start", "end", "alignment", "position"),
    [
        (0, 29, 8, 24),
        (8, 29, 8, 24),
        (8, 29, 16, 24),
        (0, 29, 16, 0),
        (0, 24, 8, 16),
        (0, 9, 8, 8),
        (0, 8, 8, 0),
        (16, 25, 8, 24),
        (16, 24, 8, 0),
        (12, 37, 8, 0),
        (0, 29, None, 0),
    ],
)
def test_where_a_chunk_can_save_a_state(start, end, alignment, position):
    """Whole hash blocks before it, another column than the initial state's, and a multiple of the alignment inside."""
    config = EngineConfig(groups=hybrid(8), num_blocks=20, prefill_checkpoint_alignment=alignment)
    assert CacheRules.of(config, profile("0.34")).checkpoint_inside(start, end) == position


def test_an_alignment_below_one_is_refused():
    with pytest.raises(ValueError, match="prefill_checkpoint_alignment 0: expected 1 or more; use None to switch it"):
        engine(prefill_checkpoint_alignment=0)
