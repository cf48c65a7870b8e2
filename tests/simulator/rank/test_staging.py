"""Staging buffers are read when the device gets there: what a pool of too few buffers does to what is queued."""

from stalerow.simulator.rank.staging import StagingPool


def test_a_pool_as_deep_as_the_steps_in_flight_gives_back_what_was_staged():
    pool = StagingPool(2)
    first, second = pool.stage("counts", (1, 2)), pool.stage("counts", (3,))
    assert (first(), second()) == ((1, 2), (3,))
    assert pool.overwritten == set()
    assert pool.unread == frozenset()


def test_a_buffer_filled_again_is_read_as_it_is_now_and_told():
    pool = StagingPool(1)
    first = pool.stage("counts", (1, 2, 3))
    pool.stage("counts", (9,))
    assert first() == (9, 2, 3)
    assert pool.overwritten == {"counts"}


def test_equal_numbers_in_a_buffer_filled_again_harm_nobody():
    pool = StagingPool(1)
    first = pool.stage("counts", (7, 7))
    pool.stage("counts", (7, 7))
    assert first() == (7, 7)
    assert pool.overwritten == set()


def test_pools_take_turns_apart_from_each_other():
    pool = StagingPool(2)
    pool.stage("a", (1,))
    pool.stage("b", (2,))
    assert pool.unread == {("a", 0), ("b", 0)}
    assert pool.next_buffers == {("a", 1), ("b", 1)}
    buffers, turns = pool.contents
    assert buffers["a"] == [(1,), ()]
    assert turns == {"a": 0, "b": 0}
