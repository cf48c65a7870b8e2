"""The property that the whole project is about, as an engine's own repository would state it."""

from hypothesis import given

from stalerow.simulator.testing import assert_isolated, schedules


def test_seeds_are_isolated(stalerow_schedule, stalerow_kernels):
    assert_isolated(stalerow_schedule, stalerow_kernels)


@given(schedules())
def test_every_schedule_is_isolated(stalerow_kernels, schedule):
    assert_isolated(schedule, stalerow_kernels)
