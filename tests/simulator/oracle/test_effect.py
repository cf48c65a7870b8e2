"""What copies mean: which blocks and rows of which state, by request and column, and what they leave in a page."""

import msgspec
import numpy as np
import pytest
from small import CONV, LAYOUT, PREFILL, RECURRENT, TEMPORAL, VERIFY, admitted, planner

from stalerow.simulator.oracle.effect import ColumnCopy, StateCopy, apply_copy, postcopy, precopy, region, window


def rows():
    made = planner()
    return made.plan(PREFILL).rows["r0"], made.plan(VERIFY).rows["r0"]


def test_a_running_column_that_moves_takes_the_accepted_state_along():
    prefill, verify = rows()
    assert precopy(prefill) is None
    assert precopy(verify) == ColumnCopy("r0", source=1, bias=0, target=2)


def test_a_boundary_among_the_accepted_tokens_is_saved_from_the_running_column():
    prefill, verify = rows()
    assert postcopy(prefill) is None
    assert postcopy(verify) == ColumnCopy("r0", source=2, bias=1, target=1)


def test_the_bias_chooses_a_temporal_states_column_and_a_windows_rows():
    made = list(ColumnCopy("r0", 2, 1, 1).copies(LAYOUT, admitted()))
    assert made == [
        StateCopy("r0", CONV, RECURRENT[2], RECURRENT[1], 1),
        StateCopy("r0", TEMPORAL, RECURRENT[3], RECURRENT[1], 0),
    ]


def test_a_column_that_the_request_has_not_is_the_null_block():
    assert ColumnCopy("r0", 9, 0, 1).target_block(admitted(), 0) == RECURRENT[1]
    assert next(iter(ColumnCopy("r0", 9, 0, 1).copies(LAYOUT, admitted()))).source == 0


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("bias", [0, 2])
def test_a_window_is_shifted_by_the_bias_and_its_end_left_alone(conv_layout, bias):
    layout = msgspec.structs.replace(LAYOUT, conv_layout=conv_layout)
    entry, pages = layout.states[0], np.zeros((1, 12, layout.page_bytes), np.uint8)
    source, target = (window(layout, entry, pages[0, block, region(layout, entry)]) for block in (3, 2))
    source[:] = np.arange(5, dtype=np.uint8)[:, None, None] + 1
    target[:] = 99
    apply_copy(layout, pages, StateCopy("r0", entry, 3, 2, bias), pages.copy())
    expected = [*range(1 + bias, 6), *[99] * bias]
    assert (target == np.array(expected, np.uint8)[:, None, None]).all()


def test_a_temporal_state_is_copied_whole_and_nothing_else():
    pages = np.random.default_rng(1).integers(0, 256, (1, 12, LAYOUT.page_bytes), np.uint8)
    before = pages.copy()
    apply_copy(LAYOUT, pages, StateCopy("r0", TEMPORAL, 3, 2, 0), before)
    where = region(LAYOUT, TEMPORAL)
    assert np.array_equal(pages[0, 2, where], before[0, 3, where])
    pages[0, 2, where] = before[0, 2, where]
    assert np.array_equal(pages, before)


def test_what_is_read_is_what_stood_there_before_the_launch():
    pages = np.zeros((1, 12, LAYOUT.page_bytes), np.uint8)
    before = pages.copy()
    before[0, 3] = 7
    apply_copy(LAYOUT, pages, StateCopy("r0", TEMPORAL, 3, 2, 0), before)
    assert (pages[0, 2, region(LAYOUT, TEMPORAL)] == 7).all()
