"""Programs and warps of one launch interleaved: what a GPU is free to do happens, and nothing else."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stalerow.kernels.base.memory import WildAccess

pytestmark = pytest.mark.usefixtures("host")


def interleaved(launch, lags=(), lanes=32):
    """Run `launch()` with the given (program, warp, access) lags; the log of its one launch."""
    from stalerow.kernels.compiled import interleave

    logs = []

    class Order(interleave.Interleaver):
        def lags(self, kernel):
            return interleave.Given([interleave.Lag(*lag) for lag in lags])

        def ran(self, log):
            logs.append(log)

    order = Order()
    order.lanes = lanes
    with interleave.interleaved(order):
        launch()
    (log,) = logs
    assert log.complete
    return log


def lags(programs, warps, accesses):
    one = st.tuples(st.integers(0, programs - 1), st.integers(0, warps - 1), st.integers(0, accesses))
    return st.lists(one, max_size=8)


def test_without_lags_programs_run_one_after_another():
    import compiled_kernels as kernels

    flags, out = torch.tensor([3]), torch.zeros(4, dtype=torch.int64)
    log = interleaved(lambda: kernels.reset_and_read[(4,)](flags, out, num_warps=1))
    assert out.tolist() == [3, 1, 1, 1]
    assert log.lags == []


def test_a_program_that_lags_sees_what_the_others_did():
    import compiled_kernels as kernels

    flags, out = torch.tensor([3]), torch.zeros(4, dtype=torch.int64)
    log = interleaved(lambda: kernels.reset_and_read[(4,)](flags, out, num_warps=1), [(0, 0, 1), (2, 0, 0)])
    assert out.tolist() == [3, 3, 1, 3]
    assert [tuple(lag) for lag in log.lags] == [(0, 0, 1), (2, 0, 0)]


def test_a_race_names_both_programs_their_lines_and_the_array():
    import compiled_kernels as kernels
    from test_bounds import line_of

    flags, out = torch.tensor([3]), torch.zeros(4, dtype=torch.int64)
    log = interleaved(lambda: kernels.reset_and_read[(4,)](flags, out, num_warps=1))
    (race,) = log.races()
    assert (race.kernel, race.first.verb, race.second.verb) == ("reset_and_read", "store", "load")
    assert (race.first.program, race.second.program) == ((0, 0, 0), (1, 0, 0))
    assert (race.first.line, race.second.line) == (line_of("tl.store(flags, 1)"), line_of("flag = tl.load(flags)"))
    assert (race.first.value, race.second.value) == (1, 1)
    assert "into flags (8 bytes)" in race.place


def test_a_write_that_changes_nothing_and_equal_writes_are_no_race():
    import compiled_kernels as kernels

    flags, out = torch.tensor([1]), torch.zeros(4, dtype=torch.int64)
    assert interleaved(lambda: kernels.reset_and_read[(4,)](flags, out)).races() == []
    assert interleaved(lambda: kernels.same_value[(4,)](flags, out)).races() == []


def test_different_writes_to_one_word_are_a_race():
    import compiled_kernels as kernels

    out = torch.zeros(1, dtype=torch.int32)
    (race,) = interleaved(lambda: kernels.last_writer[(3,)](out)).races()
    assert (race.first.verb, race.second.verb) == ("store", "store")
    assert (race.first.value, race.second.value) == (0, 1)
    assert out.item() == 2
    interleaved(lambda: kernels.last_writer[(3,)](out), [(1, warp, 0) for warp in range(4)])
    assert out.item() == 1


SHIFTED = [*range(5, 120), *range(115, 120)]


@settings(max_examples=60, deadline=None)
@given(lags(1, 4, 2))
def test_a_barrier_keeps_a_shift_in_place_whole_in_every_order(chosen):
    import compiled_kernels as kernels

    x = torch.arange(120)
    log = interleaved(lambda: kernels.shift_left[(1,)](x, 5, 120, True, BLOCK=128), chosen)
    assert x.tolist() == SHIFTED
    assert log.races() == []


def test_a_shift_in_place_without_barrier_tears_where_a_warp_lags():
    import compiled_kernels as kernels

    x = torch.arange(120)
    log = interleaved(lambda: kernels.shift_left[(1,)](x, 5, 120, False, BLOCK=128))
    assert x.tolist() == SHIFTED
    assert [(race.first.warp, race.second.warp) for race in log.races()] == [(0, 1)]
    x = torch.arange(120)
    log = interleaved(lambda: kernels.shift_left[(1,)](x, 5, 120, False, BLOCK=128), [(0, 0, 0)])
    assert x.tolist() == [*SHIFTED[:27], *range(37, 42), *SHIFTED[32:]]
    torn = next(race for race in log.races() if race.first.verb == "store")
    assert (torn.first.warp, torn.second.verb, torn.second.warp) == (1, "load", 0)


def test_a_shift_within_one_warp_does_not_tear_unless_lanes_are_on_their_own():
    import compiled_kernels as kernels

    for lanes, expected in ((32, [*range(3, 16), 13, 14, 15]), (1, None)):
        x = torch.arange(16)
        interleaved(lambda x=x: kernels.shift_left[(1,)](x, 3, 16, False, BLOCK=16), [(0, 0, 0)], lanes)
        assert (x.tolist() == expected) is (lanes == 32)


@settings(max_examples=60, deadline=None)
@given(lags(3, 4, 3))
def test_a_reduction_waits_for_all_warps(chosen):
    import compiled_kernels as kernels

    x, out = torch.arange(128, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    log = interleaved(lambda: kernels.total_of_all[(1,)](x, out, BLOCK=128), chosen)
    assert x.tolist() == [8128] * 128
    assert out.item() == 8128
    assert log.races() == []


@settings(max_examples=60, deadline=None)
@given(lags(5, 2, 12))
def test_atomics_happen_once_a_program_in_every_order(chosen):
    import compiled_kernels as kernels

    numbers = torch.tensor([27, 0, 1, 6, 97], dtype=torch.int32)
    out, seen = torch.zeros(5, dtype=torch.int32), torch.zeros(5, dtype=torch.int32)
    counter = torch.zeros(7, dtype=torch.int32)
    log = interleaved(lambda: kernels.control[(5,)](numbers, out, counter, seen, 5, 4, BLOCK=4, num_warps=2), chosen)
    assert out.tolist() == [111, -1, 0, 8, 118]
    assert counter[4] == 97
    chain = {0: None} | {int(seen[i]): int(numbers[i]) for i in (0, 2, 3, 4)}
    last, length = 0, 0
    while (last := chain.get(last)) is not None:
        length += 1
    assert length == 4, "every program took what exactly one other had left"
    assert log.races() == []


def test_a_wild_access_in_the_middle_ends_the_launch_and_frees_the_rest():
    import compiled_kernels as kernels

    src, dst = torch.arange(10, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    with pytest.raises(WildAccess, match=r"program \(2, 0, 0\) loads 4 bytes .* past the end of src"):
        interleaved(lambda: kernels.copy_block[(4,)](src, dst, 12, BLOCK=4), [(0, 0, 1), (1, 0, 1)])


def test_a_log_that_fills_up_says_so_and_is_larger_the_next_time(monkeypatch):
    import compiled_kernels as kernels
    import numpy as np

    from stalerow.kernels.compiled import interleave

    monkeypatch.setattr(interleave, "_log", np.zeros((8, 5), dtype=np.uint64))
    src, dst = torch.arange(64), torch.zeros(64, dtype=torch.int64)
    with pytest.raises(AssertionError):
        interleaved(lambda: kernels.copy_block[(2,)](src, dst, 64, BLOCK=32))
    assert dst.equal(src)
    for _ in range(3):
        try:
            assert len(interleaved(lambda: kernels.copy_block[(2,)](src, dst, 64, BLOCK=32)).entries) == 128
        except AssertionError:
            continue
        break
    assert len(interleave._log) == 512
