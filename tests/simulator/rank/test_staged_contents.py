"""Block ids for the tables: staged like the rest from 0.34 on, copied in stream order before."""

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.ordering import chooser as ordered
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.order import Hold, Order
from stalerow.simulator.schedule.values import Schedule

REFERENCE = kernel_set("reference:req-idx")


def lagging(profile: str, depth: int | None) -> Schedule:
    """The first rank's device lags behind its host for a while, with staging pools of `depth` buffers."""
    made = from_seed(0, pp=2, runner="v2")
    pipeline = msgspec.structs.replace(made.pipeline, profile=profile)
    limits = msgspec.structs.replace(made.limits, staging_depth=depth)
    order = Order(holds=(Hold(at=4, actor="device0", decisions=60),))
    return msgspec.structs.replace(made, pipeline=pipeline, limits=limits, order=order)


def overwritten(schedule: Schedule) -> set[str]:
    simulation = Simulation(schedule, REFERENCE, ordered(schedule))
    simulation.run()
    return {name for rank in simulation.ranks for name in rank.staging.overwritten}


@pytest.mark.parametrize(("profile", "reached"), [("0.32", False), ("0.33", False), ("0.34", True)])
def test_a_shallow_pool_reaches_the_block_ids_from_0_34_on(profile, reached):
    names = overwritten(lagging(profile, depth=1))
    assert names - {"contents"}
    assert ("contents" in names) is reached


def test_pools_as_deep_as_the_steps_in_flight_overwrite_nothing():
    assert overwritten(lagging("0.34", depth=None)) == set()
