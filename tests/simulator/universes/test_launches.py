"""Packs launch what hosts were recorded to launch, in that order."""

from typing import get_args

import pytest

from stalerow.simulator.errors import UsageError
from stalerow.simulator.rank.operations import Broadcast, CommitRows, Dummy, Operation, ScatterAccepted
from stalerow.simulator.universes.launches import LAUNCHES
from stalerow.simulator.universes.pack import _merged

NOT_ON_A_MAIN_STREAM = {Broadcast.kind}
REFUSED = {CommitRows.kind, ScatterAccepted.kind, Dummy.kind}


def test_every_kind_of_a_main_stream_of_runner_v2_has_a_launch() -> None:
    assert {kind.kind for kind in get_args(Operation)} == {*LAUNCHES} | NOT_ON_A_MAIN_STREAM | REFUSED


def test_an_order_that_is_every_universes() -> None:
    universes = [("free", "admit", "gather"), ("free", "admit", "zero", "gather", "advance"), ("post_update", "free")]
    order = _merged(frozenset(universes))
    assert sorted(order) == sorted({kind for universe in universes for kind in universe})
    for universe in universes:
        assert [kind for kind in order if kind in universe] == list(universe)


def test_universes_whose_workers_launch_in_different_orders_do_not_share_a_pack() -> None:
    with pytest.raises(UsageError, match="one order"):
        _merged(frozenset([("free", "postprocess"), ("postprocess", "free")]))
