"""What ranks send each other: activations are handed on and used up, samples reach whoever waits for a broadcast."""

import numpy as np
import pytest
from one_rank import REFERENCE

from stalerow.simulator.rank.wires import Wires
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers.given import GivenOrder
from stalerow.simulator.schedule.generate import from_seed


@pytest.fixture(scope="module")
def ran() -> Simulation:
    """A healthy run over three ranks."""
    schedule = from_seed(3, pp=3, runner="v2")
    simulation = Simulation(schedule, REFERENCE, GivenOrder(schedule.order))
    simulation.run()
    assert not simulation.found
    return simulation


def test_pipelines_share_nothing():
    one, other = Wires(), Wires()
    one.activations[0, 1] = np.zeros(1)
    one.received.add(1)
    one.outputs.add(1)
    assert other == Wires()


def test_activations_are_used_up_by_the_next_rank_and_stay_only_behind_the_last(ran):
    assert {rank for rank, _ in ran.wires.activations} == {2}


def test_a_sample_has_a_line_for_every_row_and_a_place_for_every_draft(ran):
    drafts = ran.schedule.pipeline.drafts
    assert ran.wires.sampled
    for step, out in ran.wires.sampled.items():
        rows = len(ran.planner.plans[step].rows)
        assert (len(out.requests), out.tokens.shape) == (rows, (rows, drafts + 1))
        assert out.num_sampled.shape == out.num_rejected.shape == (rows,)
        assert (out.num_sampled + out.num_rejected <= drafts + 1).all()


def test_what_is_broadcast_was_sampled_and_every_sample_reaches_the_engine(ran):
    assert ran.wires.received
    assert ran.wires.received <= {*ran.wires.sampled} == ran.wires.outputs
