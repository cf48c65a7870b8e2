"""What a correct worker decides, decision by decision, on the cases that releases got wrong."""

import msgspec
import numpy as np
import pytest

from stalerow.simulator.engine.step import NewRequest
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.ring import RingEntry
from stalerow.simulator.schedule.generate import from_seed

SCHEDULE = from_seed(3, pp=2)


def policy(**limits) -> RankPolicy:
    return RankPolicy(msgspec.structs.replace(SCHEDULE, limits=msgspec.structs.replace(SCHEDULE.limits, **limits)))


def new(hit: int) -> NewRequest:
    return NewRequest("r0", 20, (), hit, (), False, 0, 4)


@pytest.mark.parametrize(("hit", "column"), [(0, -1), (1, 0), (8, 0), (9, 1), (16, 1), (17, 2)])
def test_a_request_is_seeded_in_the_block_of_its_last_computed_token(hit, column):
    assert policy().seed_column(new(hit), 8) == column
    assert policy().seed_accepted(new(hit)) == 1


def test_an_output_is_masked_where_no_sample_is_needed_or_the_slot_was_freed_since():
    entry = RingEntry(1, ("a", "b", "c"), np.array([2, 0, 1]), np.array([5, 0, 3]), np.array([True, False, True]))
    assert policy().excluded(entry, np.array([0, 4, 5])).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("rows", "uniform", "padded"), [(1, True, 2), (2, True, 2), (3, True, 4), (5, True, 5), (1, False, 1)]
)
def test_a_uniform_decode_batch_is_padded_to_the_next_captured_size(rows, uniform, padded):
    assert policy(graph_sizes=(4, 2)).padded_rows(rows, uniform) == padded


def test_there_is_a_staging_buffer_for_every_step_in_flight_unless_fewer_are_asked_for():
    assert policy(staging_depth=None).staging_depth(3) == 3
    assert policy(staging_depth=1).staging_depth(3) == 1


@pytest.mark.parametrize(("tokens", "capped", "needs"), [(9, False, False), (10, False, True), (10, True, False)])
def test_an_output_is_deferred_from_the_end_of_the_prefill_on(tokens, capped, needs):
    assert policy().needs_output(tokens, 10, capped) is needs


def test_a_tail_of_one_token_runs_as_verification_after_a_prefix_or_with_placeholders():
    assert policy().runs_as_decode(np.array([0, 4, 0]), np.array([0, 0, 2])).tolist() == [False, True, True]


def test_the_slot_that_was_freed_last_is_taken_first():
    free = [0, 3, 1]
    assert policy().take_slot(free) == 1
    assert free == [0, 3]
    assert policy().free_order({"b", "a"}) == ["a", "b"]
