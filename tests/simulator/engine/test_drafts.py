"""How many drafts a decode has: what a batch of that size drafts, and what the drafter's layers need."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt

from stalerow.simulator.engine import Step
from stalerow.simulator.engine.policies import DraftPolicy


def drafted(count: int, **options: object) -> set[int]:
    core = engine("0.34", num_speculative_tokens=3, max_num_batched_tokens=512, **options)
    for index in range(count):
        core.add_request(f"r{index}", prompt(20, index + 1), 12)
    driver = Driver(core).run()
    return {row.num_drafts for step in driver.steps for row in step.rows if row.is_final_or_decode} - {0}


RANGES = ((1, 1, 3), (2, 2, 2), (4, 8, 1))


def test_a_larger_batch_drafts_less_and_gaps_take_the_range_before():
    policy, config = (
        DraftPolicy(),
        engine(num_speculative_tokens=3, num_speculative_tokens_per_batch_size=RANGES).config,
    )
    assert [policy.placeholders(config, rows) for rows in (1, 2, 3, 4, 8, 20)] == [3, 2, 2, 1, 1, 1]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_decodes_verify_what_the_batch_before_has_drafted(asynchronous):
    options = {"num_speculative_tokens_per_batch_size": RANGES, "async_scheduling": asynchronous}
    assert drafted(1, **options) == {3}
    assert 2 in drafted(2, **options)
    assert 3 not in drafted(2, **options)
    assert drafted(2, async_scheduling=asynchronous) == {3}


def test_a_late_arrival_is_not_padded_where_the_number_of_drafts_varies():
    def padded(ranges: tuple[tuple[int, int, int], ...]) -> bool:
        core = engine("0.34", num_speculative_tokens=3, num_speculative_tokens_per_batch_size=ranges)
        core.add_request("a", prompt(20, 1), 20)
        driver = Driver(core)
        while not driver.outputs.get("a"):
            driver.advance()
        core.add_request("b", prompt(1, 2), 4)
        return driver.run().rows("b")[0].num_drafts > 0

    assert padded(())
    assert not padded(RANGES)


def test_an_ngram_drafter_reserves_no_slots_past_the_tokens():
    def blocks(drafter: str) -> int:
        groups = hybrid(8, recurrent=0)
        core = engine("0.34", num_speculative_tokens=3, drafter=drafter, groups=groups)
        core.add_request("a", prompt(8), 4)
        return len(Driver(core).schedule().block_lists["a"][0])

    assert (blocks("mtp"), blocks("ngram")) == (2, 1)


def test_an_ngram_drafter_costs_a_hit_no_block():
    def hit(drafter: str) -> int:
        core = engine("0.32", num_speculative_tokens=2, drafter=drafter)
        driver = Driver(core)
        for name in ("a", "b"):
            core.add_request(name, prompt(65), 2)
            driver.run()
        return driver.admission("b").num_computed_tokens

    assert (hit("mtp"), hit("ngram")) == (48, 64)


@pytest.mark.parametrize("ranges", [((2, 3, 1),), ((1, 4, 2), (4, 8, 1)), ((1, 0, 2),), ((1, 2, -1),)])
def test_ranges_with_gaps_at_the_start_overlaps_or_no_drafts_are_refused(ranges):
    with pytest.raises(ValueError, match=r"num_speculative_tokens_per_batch_size .*: expected \(first, last, drafts\)"):
        engine(num_speculative_tokens=3, num_speculative_tokens_per_batch_size=ranges)


def test_an_unknown_drafter_is_refused():
    with pytest.raises(ValueError, match="drafter 'oracle': expected 'mtp' or 'ngram'"):
        engine(drafter="oracle")


def steps(release: str = "0.34", **options: object) -> list[Step]:
    core = engine(release, num_speculative_tokens=2, max_num_batched_tokens=16, **options)
    core.add_request("a", prompt(40, 1), 6)
    return Driver(core).run().steps


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("ranks", [1, 2])
def test_no_drafts_are_asked_for_after_a_chunk_and_after_the_last_output(asynchronous, ranks):
    made = [s for s in steps(async_scheduling=asynchronous, pipeline_parallel_size=ranks) if s.rows]
    chunks = [s for s in made if not s.rows[0].is_final_or_decode]
    decodes = [s for s in made if s.rows[0].is_final_or_decode]
    assert chunks
    assert all(s.skip_drafts for s in chunks)
    assert not any(s.skip_drafts for s in decodes[:3])
    assert decodes[-1].skip_drafts


def test_one_request_that_can_use_drafts_is_enough():
    core = engine("0.34", groups=hybrid(8), num_speculative_tokens=2, max_num_batched_tokens=16)
    core.add_request("a", prompt(6, 1), 20)
    core.add_request("b", prompt(60, 2), 20)
    mixed = [s for s in Driver(core).run().steps if len({r.is_final_or_decode for r in s.rows}) > 1]
    assert mixed
    assert not any(s.skip_drafts for s in mixed)


def test_only_drafters_with_layers_of_their_own_skip_and_only_from_0_33_on():
    assert any(s.skip_drafts for s in steps("0.33"))
    assert not any(s.skip_drafts for s in steps("0.32"))
    assert not any(s.skip_drafts for s in steps(drafter="ngram"))
    first_runner = {"model_runner": 1, "async_scheduling": False}
    assert not any(s.skip_drafts for s in steps("0.33", **first_runner))
