"""A launch that damages the pool is blamed itself, whichever launch it is."""

from contextlib import suppress
from typing import Any, Literal, get_args

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import Broadcast, CommitRows, Dummy, Operation, Sample, ScatterAccepted
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.loop import Simulation
from stalerow.simulator.schedule.choosers.planned import PlannedOrder
from stalerow.simulator.schedule.generate import from_seed

HEALTHY = kernel_set("reference:req-idx")
TRIED = 120


class _IdleDummies(RankPolicy):
    """A worker whose dummy runs write nothing, so that there is such a launch at all."""

    def idle_step(self, rank: Any, step: Any) -> None:
        rank.push(Dummy(step=step.number, run=lambda: None))


class _Flip:
    """Damages the pool in the launch that is told, once: after `skip` launches of its kind."""

    def __init__(self, kind: type, skip: int) -> None:
        self._kind, self._left = kind, skip
        self.flipped: Operation | None = None

    def put_into(self, rank: Rank) -> None:
        self._rank = rank
        for queue in (rank.queue, rank.side):
            push = queue.push
            queue.push = lambda operation, push=push: push(self._wrapped(operation))  # type: ignore[method-assign]

    def observe(self, simulation: Simulation, actor: str, done: Any) -> None:
        if self.flipped is not None:
            raise _Seen

    def _wrapped(self, operation: Operation) -> Operation:
        if not isinstance(operation, self._kind):
            return operation

        def run() -> None:
            operation.run()
            self._left -= 1
            if self._left == -1:
                self._rank.pool.array[-1] ^= 1
                self.flipped = operation

        return msgspec.structs.replace(operation, run=run)


class _Seen(Exception):
    """The damaged launch has been judged."""


def flip_one(kind: type, skip: int) -> tuple[Operation, list[Violation]]:
    """The damaged launch and what the oracle found, in the first schedule where such a launch takes place."""
    runner: Literal["v1", "v2"] = "v1" if kind in (CommitRows, ScatterAccepted) else "v2"
    for seed in range(TRIED):
        schedule = from_seed(seed, 2, runner)
        flip, order = _Flip(kind, skip), PlannedOrder(schedule.order)
        simulation = Simulation(schedule, HEALTHY, order, rank_policy=_IdleDummies, observer=flip.observe)
        flip.put_into(simulation.ranks[-1 if kind in (Sample, Broadcast) else 0])
        with suppress(_Seen):
            simulation.run()
        if flip.flipped is not None:
            return flip.flipped, simulation.found
    raise AssertionError(f"no such launch in {TRIED} schedules")


@pytest.mark.parametrize("skip", [0, 2])
@pytest.mark.parametrize("kind", get_args(Operation), ids=lambda kind: kind.kind)
def test_a_flipped_byte_is_blamed_on_the_launch_that_flipped_it(kind: type, skip: int) -> None:
    operation, found = flip_one(kind, skip)
    assert [(v.launch, v.during) for v in found[:1]] == [(operation.kind, operation.step)]
