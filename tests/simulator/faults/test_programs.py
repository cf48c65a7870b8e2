"""Launches whose programs run in a drawn order: repeatable, and found in the reference and in Triton kernels."""

from __future__ import annotations

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.scenarios import catalogue
from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults import resolve
from stalerow.simulator.faults.programs import DrawnOrder
from stalerow.simulator.schedule.generate import from_seed

ORDERED = ("accept-reset-race", "overlap-shift")


def test_an_order_is_a_permutation_and_the_next_launch_has_another() -> None:
    order, again = DrawnOrder(from_seed(5)), DrawnOrder(from_seed(5))
    first, second = order.permutation(12), order.permutation(12)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    assert [again.permutation(12), again.permutation(12)] == [first, second]


@pytest.mark.parametrize("name", ORDERED)
def test_equal_schedules_give_equal_digests(name: str) -> None:
    schedule, kernels = catalogue()[name].schedule, kernel_set("reference:req-idx")
    assert schedule is not None
    assert resolve([name]).run(schedule, kernels).digest == resolve([name]).run(schedule, kernels).digest


@pytest.mark.parametrize("name", ORDERED)
def test_triton_kernels_on_the_host_show_it_too(name: str) -> None:
    kernels = kernel_set("req-idx", "cpu")
    scenario, faults = catalogue()[name], resolve([name])
    assert scenario.schedule is not None
    outcome = faults.run(scenario.schedule, kernels)
    assert outcome.violations
    assert faults.faults[0].shows(outcome.violations[0])
    assert resolve([]).run(scenario.schedule, kernels).clean


def test_faults_of_single_copies_need_the_reference() -> None:
    kernels = kernel_set("req-idx")
    with pytest.raises(UsageError, match="needs a reference kernel set: use --kernels reference:req-idx"):
        resolve(["address-width"]).run(from_seed(1), kernels)
