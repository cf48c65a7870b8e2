"""Kinds of operation are a closed set, and none of them runs unjudged."""

from typing import get_args

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.rank import operations
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers.given import GivenOrder
from stalerow.simulator.schedule.generate import from_seed

KINDS = get_args(Operation)


def test_every_kind_that_is_defined_is_in_the_union_under_a_name_of_its_own() -> None:
    defined = {c for c in vars(operations).values() if isinstance(c, type) and isinstance(vars(c).get("kind"), str)}
    assert defined == set(KINDS)
    assert len({c.kind for c in KINDS}) == len(KINDS)


def test_an_operation_of_no_known_kind_is_refused_by_the_oracle() -> None:
    class Mystery(operations._Operation, frozen=True, eq=False, kw_only=True):
        kind = "mystery"

    schedule = from_seed(0)
    simulation = Simulation(schedule, kernel_set("reference:req-idx"), GivenOrder(schedule.order))
    with pytest.raises(AssertionError, match="Mystery"):
        simulation.judges[0].after(Mystery(step=1, run=lambda: None))  # type: ignore[arg-type]


def test_an_operation_says_which_batch_it_works_for() -> None:
    free = operations.Dummy(step=3, run=lambda: None)
    assert free.batch_step == 3
    output = operations.Taken(1, (), (), None, {})  # type: ignore[arg-type]
    assert operations.PostUpdate(step=3, run=lambda: None, output=output).batch_step == 1
