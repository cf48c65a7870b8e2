"""Launches that damage what they may reach, one byte at a time, in whatever kernel set is told."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, Literal

import msgspec
import numpy as np

from stalerow.kernels.sets import KernelSet
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import Broadcast, CommitRows, Dummy, Operation, Sample, ScatterAccepted
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.released import RefusedLayout, check_layout, worker_policy
from stalerow.simulator.run.simulation import Observer, Simulation
from stalerow.simulator.schedule.choosers.given import GivenOrder
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.schedule.values import Schedule

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
        if self.flipped is not None or simulation.found:
            raise Seen

    def _wrapped(self, operation: Operation) -> Operation:
        if not isinstance(operation, self._kind):
            return operation

        def run() -> None:
            operation.run()
            self._left -= 1
            if self._left == -1:
                pages = self._rank.pool.pages(self._rank.pool.array).reshape(-1)
                pages[int(self._place * (len(pages) - 1))] ^= 1
                self.flipped = operation

        return msgspec.structs.replace(operation, run=run)


class Seen(Exception):
    """The damaged launch has been judged, or something else was wrong before it."""


def schedules(kernels: KernelSet, first: int, runner: Literal["v1", "v2"] = "v2") -> Iterator[Schedule]:
    """Of `TRIED` schedules those that the release accepts; its kernels are only asked for what its engine does."""
    for seed in range(first, first + TRIED):
        schedule = from_draw(Draw(seed, 2, runner, faithful=hasattr(kernels.align, "caller")))
        with suppress(RefusedLayout):
            check_layout(schedule.layout, kernels.align)
            yield schedule


def watched(
    schedule: Schedule, kernels: KernelSet, observer: Observer, policy: type[RankPolicy] = RankPolicy
) -> Simulation:
    return Simulation(
        schedule,
        kernels,
        GivenOrder(schedule.order),
        rank_policy=worker_policy(policy, kernels.align),
        observer=observer,
    )


def flip_one(kernels: KernelSet, kind: type, skip: int, place: float) -> tuple[Operation, list[Violation]]:
    """The damaged launch and what the oracle found, in the first schedule where such a launch takes place."""
    runner: Literal["v1", "v2"] = "v1" if kind in (CommitRows, ScatterAccepted) else "v2"
    for schedule in schedules(kernels, 0, runner):
        flip = _Flip(kind, skip, place)
        simulation = watched(schedule, kernels, flip.observe, _IdleDummies)
        flip.put_into(simulation.ranks[-1 if kind in (Sample, Broadcast) else 0])
        with suppress(Seen):
            simulation.run()
        if flip.flipped is not None:
            return flip.flipped, simulation.found
    raise AssertionError(f"no such launch in {TRIED} schedules")


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
        # The launch that seeds is told slots first, as int32; all others a mapping.
        mapping = next((a for a in args if hasattr(a, "dtype") and str(a.dtype).endswith("int64")), args[0])
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


def some_entry(array: str, random: Random) -> Callable[..., bool]:
    """Changes an entry of a row that is used: of a table, or of the lengths."""

    def damage(owner: Any, *args: Any) -> bool:
        mapping = next(a for a in args if hasattr(a, "dtype") and str(a.dtype).endswith("int64"))
        row = random.randrange(int((np.asarray(mapping) >= 0).sum()))
        if array == "seq_lens":
            args[-1][row] ^= random.randrange(1, 256)
            return True
        table = random.choice(owner.gathered)
        table[row, 0] ^= random.randrange(1, 256) << random.choice((0, 8, 16))
        return True

    return damage


def some_page(random: Random) -> Callable[..., bool]:
    def damage(slots: Any, binding: Any, *rest: Any) -> bool:
        pages = binding.pool.pages(np.asarray(binding.pool.array)).reshape(-1)
        pages[random.randrange(pages.size)] ^= random.randrange(1, 256)
        return True

    return damage


def blamed(kernels: KernelSet, call: str, array: str, seed: int) -> tuple[Operation, list[Violation]]:
    """The launch in which a byte was changed and what the oracle found at once, in the first schedule that has one."""
    random = Random(seed)
    damages = {
        "pool": some_page,
        "state_indices": some_index,
        "gathered": lambda random: some_entry(array, random),
        "seq_lens": lambda random: some_entry(array, random),
    }
    damage = damages.get(array, lambda random: number_of(array, random))
    part = "align" if hasattr(kernels.align, call) else "ops"
    for schedule in schedules(kernels, seed):
        damaging = _Damaging(getattr(kernels, part), call, random.randrange(4), damage(random))
        launched: list[Operation] = []

        def observe(simulation: Simulation, actor: str, done: Any, damaging=damaging, launched=launched) -> None:
            if damaging.done:
                launched.append(done)
            if damaging.done or simulation.found:
                raise Seen

        simulation = watched(schedule, kernels._replace(**{part: damaging}), observe)
        with suppress(Seen):
            simulation.run()
        if launched:
            return launched[0], simulation.found
    raise AssertionError(f"no such launch in {TRIED} schedules")
