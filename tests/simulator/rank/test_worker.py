"""What a policy may use of a rank is there, on either runner, and sized as the protocol says."""

import inspect

import pytest
from one_rank import hand, rank
from small import step

from stalerow.simulator.rank.operations import Dummy
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.v1 import RankV1
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.rank.worker import Worker

BOTH = pytest.mark.parametrize("kind", [RankV1, RankV2])


@BOTH
def test_a_rank_has_everything_that_the_protocol_promises(kind):
    made = rank(kind)
    named = {*inspect.get_annotations(Worker), *(n for n, f in vars(Worker).items() if inspect.isfunction(f))}
    named = {name for name in named if not name.startswith("_")}
    assert len(named) == 10
    assert all(hasattr(made, name) for name in named)


@BOTH
def test_its_numbers_are_the_shape_of_its_tables(kind):
    made = rank(kind)
    assert made.tables.persistent[0].shape == (made.max_reqs, made.max_blocks)
    assert len(made.tables.persistent) == len(made.layout.groups)


def test_a_policy_pushes_through_it_and_gets_arrays_of_the_ranks_own_device():
    class Idle(RankPolicy):
        def idle_step(self, rank, step):
            self.made = rank.device([1, 2], "int64")
            rank.push(Dummy(step=step.number, run=lambda: None))

    made = rank(policy=Idle)
    assert hand(made, step(1))[-1] == "dummy"
    assert (made.policy.made.dtype, made.policy.made.tolist()) == ("int64", [1, 2])
