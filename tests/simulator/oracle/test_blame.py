"""A launch that damages what it may reach is blamed itself: whichever launch it is, whatever it damages, wherever."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Literal, get_args

import msgspec
import numpy as np
import pytest

from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import Broadcast, CommitRows, Dummy, Operation, Sample, ScatterAccepted
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers.given import GivenOrder
from stalerow.simulator.schedule.generate import from_seed

HEALTHY = kernel_set("reference:req-idx")
TRIED = 120


class _IdleDummies(RankPolicy):
    """A worker whose dummy runs write nothing, so that there is such a launch at all."""

    def idle_step(self, rank: Any, step: Any) -> None:
        rank.push(Dummy(step=step.number, run=lambda: None))


class _Flip:
    """Damages the pool in the launch that is told, once: after `skip` launches of its kind. place: from 0 to 1."""

    def __init__(self, kind: type, skip: int, place: float) -> None:
        self._kind, self._left, self._place = kind, skip, place
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
                pages = self._rank.pool.pages(self._rank.pool.array).reshape(-1)
                pages[int(self._place * (pages.size - 1))] ^= 1
                self.flipped = operation

        return msgspec.structs.replace(operation, run=run)


class _Seen(Exception):
    """The damaged launch has been judged."""


def flip_one(kind: type, skip: int, place: float) -> tuple[Operation, list[Violation]]:
    """The damaged launch and what the oracle found, in the first schedule where such a launch takes place."""
    runner: Literal["v1", "v2"] = "v1" if kind in (CommitRows, ScatterAccepted) else "v2"
    for seed in range(TRIED):
        schedule = from_seed(seed, 2, runner)
        flip, order = _Flip(kind, skip, place), GivenOrder(schedule.order)
        simulation = Simulation(schedule, HEALTHY, order, rank_policy=_IdleDummies, observer=flip.observe)
        flip.put_into(simulation.ranks[-1 if kind in (Sample, Broadcast) else 0])
        with suppress(_Seen):
            simulation.run()
        if flip.flipped is not None:
            return flip.flipped, simulation.found
    raise AssertionError(f"no such launch in {TRIED} schedules")


PLACES = [0.0, 0.5, 1.0, *(Random(number).random() for number in range(4))]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place:.2f}")
@pytest.mark.parametrize("kind", get_args(Operation), ids=lambda kind: kind.kind)
def test_a_flipped_byte_is_blamed_on_the_launch_that_flipped_it(kind: type, place: float) -> None:
    operation, found = flip_one(kind, int(place * 3), place)
    assert [(v.launch, v.during) for v in found[:1]] == [(operation.kind, operation.step)]


class _Damaging:
    """Kernels one of which changes a byte of what it has written, once: at its call number `skip`."""

    def __init__(self, inner: Any, call: str, skip: int, damage: Callable[..., bool]) -> None:
        self._inner, self._call, self._left, self._damage = inner, call, skip, damage
        self.done = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name != self._call:
            return method

        def damaging(*args: Any) -> None:
            method(*args)
            self._left -= 1
            if self._left < 0 and not self.done:
                self.done = self._damage(*args)

        return damaging


def number_of(array: str, random: Random) -> Callable[..., bool]:
    """Changes a number of a request that the launch works for, if that is of any consequence."""

    def damage(slots: Any, *args: Any) -> bool:
        mapping = next(a for a in args if hasattr(a, "dtype") and str(a.dtype).endswith("int64"))
        live = [int(slot) for slot in mapping if slot >= 0]
        if array in ("src_col", "src_off"):
            # Precopy looks at the offset only where the column moves.
            live = [s for s in live if 0 <= int(slots.src_col[s]) != int(slots.state_idx[s])]
        if not live:
            return False
        getattr(slots, array)[random.choice(live)] ^= random.randrange(1, 256) << random.choice((0, 8, 16))
        return True

    return damage


def some_index(random: Random) -> Callable[..., bool]:
    def damage(binding: Any, seq_lens: Any, num_rows_padded: int, block_size: int, out: Any) -> bool:
        group, row = random.randrange(out.shape[0]), random.choice(np.flatnonzero(np.asarray(seq_lens)).tolist())
        out[group, row, 0] ^= random.randrange(1, 256)
        return True

    return damage


def some_page(random: Random) -> Callable[..., bool]:
    def damage(slots: Any, binding: Any, *rest: Any) -> bool:
        pages = binding.pool.pages(np.asarray(binding.pool.array)).reshape(-1)
        pages[random.randrange(pages.size)] ^= random.randrange(1, 256)
        return True

    return damage


WRITTEN = [
    ("preprocess", "state_idx"),
    ("preprocess", "num_accepted"),
    ("preprocess", "src_col"),
    ("preprocess", "src_off"),
    ("precopy", "pool"),
    ("aligned_indices", "state_indices"),
    ("postprocess", "pool"),
    ("postprocess", "num_accepted"),
    ("post_update", "num_computed"),
    ("post_update", "total_len"),
    ("post_update", "last_token"),
    ("scatter_accepted", "num_accepted"),
    ("advance_computed", "num_computed"),
    ("fill_accepted", "num_accepted"),
]
"""What each kernel writes: those under test, then the project's own that keep numbers."""


def blamed(kernels: KernelSet, call: str, array: str, seed: int) -> tuple[Operation, list[Violation]]:
    """The launch in which a byte was changed and what the oracle found at once, in the first schedule that has one."""
    random = Random(seed)
    damage = {"pool": some_page, "state_indices": some_index}.get(array, lambda random: number_of(array, random))
    part = "align" if hasattr(kernels.align, call) else "ops"
    for number in range(seed, seed + TRIED):
        damaging = _Damaging(getattr(kernels, part), call, random.randrange(4), damage(random))
        schedule = from_seed(number, 2, "v2")
        launched: list[Operation] = []

        def observe(simulation: Simulation, actor: str, done: Any, damaging=damaging, launched=launched) -> None:
            if damaging.done:
                launched.append(done)
                raise _Seen

        simulation = Simulation(
            schedule, kernels._replace(**{part: damaging}), GivenOrder(schedule.order), observer=observe
        )
        with suppress(_Seen):
            simulation.run()
        if launched:
            return launched[0], simulation.found
    raise AssertionError(f"no such launch in {TRIED} schedules")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("call", "array"), WRITTEN)
def test_a_wrong_byte_is_blamed_on_the_kernel_that_wrote_it(call: str, array: str, seed: int) -> None:
    operation, found = blamed(HEALTHY, call, array, seed)
    assert [(v.launch, v.during) for v in found[:1]] == [(operation.kind, operation.step)]
    assert array == "pool" or found[0].request


@pytest.mark.parametrize(("call", "array"), WRITTEN[:8])
def test_so_it_is_of_triton_kernels(call: str, array: str) -> None:
    operation, found = blamed(kernel_set("req-idx"), call, array, 0)
    assert [(v.launch, v.during) for v in found[:1]] == [(operation.kind, operation.step)]
