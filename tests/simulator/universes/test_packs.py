"""A pack shows for each of its schedules what the schedule's run alone shows, and nothing of its neighbours."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.simulator.run.outcome import Outcome, run
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.universes.execute import Verdict, execute
from stalerow.simulator.universes.group import CHECKS
from stalerow.simulator.universes.pack import Pack, pack
from stalerow.simulator.universes.record import record
from stalerow.simulator.universes.tape import Tape

SEEDS = range(24)


@functools.cache
def recorded(family: int, kernels: str) -> tuple[Tape, ...]:
    align = kernel_set(kernels).align
    return tuple(record(from_draw(Draw(seed, runner="v2", family=family)), align) for seed in SEEDS)


def packed(family: int, kernels: str) -> Pack:
    return pack(from_draw(Draw(0, runner="v2", family=family)).layout, recorded(family, kernels))


@functools.cache
def alone(family: int, kernels: str) -> tuple[Outcome, ...]:
    return tuple(run(from_draw(Draw(seed, runner="v2", family=family)), kernel_set(kernels)) for seed in SEEDS)


@pytest.mark.parametrize("family", range(6))
@pytest.mark.parametrize("kernels", ["reference:req-idx", "reference:batch-row"])
def test_every_universe_is_the_run_alone(kernels: str, family: int) -> None:
    verdicts = execute(packed(family, kernels), kernel_set(kernels))
    for seed, tape, verdict, outcome in zip(SEEDS, recorded(family, kernels), verdicts, alone(family, kernels)):
        assert verdict.memory == outcome.memory, f"seed {seed}"
        assert (verdict.first is not None or bool(tape.suspects)) == bool(outcome.violations), f"seed {seed}"
        assert tape.marks == outcome.marks, f"seed {seed}"


def test_a_caller_that_leaves_padded_rows_dirty_does_so_in_a_pack() -> None:
    """The worker of a release that zeroes no padding, with clean kernels: padded rows write blocks of old tables."""
    kernels = kernel_set("reference:req-idx")
    habits = {"zero_padding": False, "binds_when": "cache_init", "seed_unit": "mamba"}
    kernels.align.caller = SimpleNamespace(ds_conv_with_drafts=True, temporal_alignment=1, **habits)  # type: ignore[attr-defined]
    schedules = [from_draw(Draw(seed, runner="v2", family=1)) for seed in SEEDS]
    verdicts = execute(pack(schedules[0].layout, [record(s, kernels.align) for s in schedules]), kernels)
    outcomes = [run(schedule, kernels) for schedule in schedules]
    assert [v.memory for v in verdicts] == [o.memory for o in outcomes]
    assert [v.first is not None for v in verdicts] == [bool(o.violations) for o in outcomes]
    assert [o.memory for o in outcomes] != [o.memory for o in alone(1, "reference:req-idx")]


def test_some_of_them_violate_and_some_do_not() -> None:
    found = [bool(o.violations) for family in range(6) for o in alone(family, "reference:batch-row")]
    assert 20 < sum(found) < len(found) - 20


def test_the_first_failed_check_says_where() -> None:
    """Every violating schedule's first check is of the step and the launch that the judge names first."""
    for family in range(6):
        verdicts = execute(packed(family, "reference:batch-row"), kernel_set("reference:batch-row"))
        for verdict, outcome in zip(verdicts, alone(family, "reference:batch-row")):
            if outcome.violations and verdict.first is not None:
                earliest = min(v.during for v in outcome.violations)
                assert verdict.first // len(CHECKS) + 1 == earliest
                assert verdict.check.endswith(f"step {earliest}, rank {verdict.rank}")
                assert verdict.rank in {v.rank for v in outcome.violations if v.during == earliest}


def test_neighbours_do_not_matter() -> None:
    """A schedule in a pack of one, last among others, and first."""
    tapes = recorded(1, "reference:batch-row")
    layout, kernels = from_draw(Draw(0, runner="v2", family=1)).layout, kernel_set("reference:batch-row")
    single = execute(pack(layout, tapes[5:6]), kernels)[0]
    assert execute(pack(layout, tapes[:6]), kernels)[5] == single
    assert execute(pack(layout, tapes[5:]), kernels)[0] == single


def test_the_triton_kernels_agree() -> None:
    kernels, spec = kernel_set("batch-row"), kernel_set("reference:batch-row")
    tapes = [t for t in recorded(2, "reference:batch-row") if t.frames < 14][:5]
    made = pack(from_draw(Draw(0, runner="v2", family=2)).layout, tapes)
    assert execute(made, kernels) == execute(made, spec)


class Spoiled:
    """Kernels or operators, one of which damages something after it has run."""

    def __init__(self, inner: Any, call: str, damage: Any) -> None:
        self._inner, self._call, self._damage = inner, call, damage

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name != self._call:
            return method

        def spoiled(*args: Any) -> None:
            method(*args)
            self._damage(*args)

        return spoiled


def spoiled(call: str, damage: Any) -> list[Verdict]:
    kernels = kernel_set("reference:req-idx")
    part = "align" if hasattr(kernels.align, call) else "ops"
    changed: KernelSet = kernels._replace(**{part: Spoiled(getattr(kernels, part), call, damage)})
    return execute(packed(0, "reference:req-idx"), changed)


def flip(pool: Any) -> None:
    pool.pages(pool.array)[:, 1::7, 0] ^= 255


def change(array: np.ndarray, by: int) -> None:
    """Where it stays in bounds."""
    array[array > 1] += by


@pytest.mark.parametrize(
    ("check", "call", "damage"),
    [
        ("counts after an output", "post_update", lambda slots, *rest: change(slots.last_token, 1)),
        ("pool after postprocess", "postprocess", lambda slots, binding, *rest: flip(binding.pool)),
        ("pool after precopy", "precopy", lambda slots, binding, *rest: flip(binding.pool)),
        ("counts before the forward", "preprocess", lambda slots, *rest: change(slots.num_accepted, -1)),
        ("counts before the forward", "aligned_indices", lambda *args: None),
        ("pool after the forward", "aligned_indices", lambda binding, lens, n, size, out: change(out, -1)),
        ("reads of the forward", "forward", lambda pool, tables, slots, step, damage, out: damage.fill(1)),
    ],
)
def test_each_check_of_a_launch_can_fail(check: str, call: str, damage: Any) -> None:
    verdicts = spoiled(call, damage)
    found = {CHECKS[v.first % len(CHECKS)] for v in verdicts if v.first is not None}
    if call == "aligned_indices" and "counts" in check:
        assert not found
    else:
        assert check in found


def test_a_page_that_was_not_zeroed_is_told() -> None:
    made = packed(0, "reference:req-idx")
    for rank in made.ranks:
        zeroed = rank["zeroed"]
        assert zeroed.values.shape[1]
        zeroed.values, zeroed.starts = zeroed.values[:, :0], [0] * len(zeroed.starts)
    verdicts = execute(made, kernel_set("reference:req-idx"))
    assert CHECKS.index("new attention blocks") in {v.first % len(CHECKS) for v in verdicts if v.first is not None}


def test_a_cached_state_that_is_not_what_it_says_is_told() -> None:
    made = packed(0, "reference:req-idx")
    cached = made.ranks[0]["cached"]
    universes = set(cached.values[0].tolist())
    cached.values[-1] -= 1
    verdicts = execute(made, kernel_set("reference:req-idx"))
    told = {u for u, v in enumerate(verdicts) if v.first is not None}
    assert told == universes
    assert {CHECKS[v.first % len(CHECKS)] for v in verdicts if v.first is not None} == {"cached states at the end"}


def test_a_page_filled_in_the_pool_only_is_told() -> None:
    """The shadow is filled by the same operator, so this one is spoiled every other time."""
    calls = iter(range(10**9))

    def other_byte(pool: Any, blocks: Any, n: int, byte: int) -> None:
        if next(calls) % 2 == 0 and n:
            pool.pages(pool.array)[:, blocks[:1], 0] ^= 1

    verdicts = spoiled("fill_blocks", other_byte)
    assert CHECKS.index("pool after admissions") in {v.first % len(CHECKS) for v in verdicts if v.first is not None}


def test_only_the_spoiled_universe_is_told() -> None:
    made = packed(0, "reference:req-idx")
    size, universe = made.sizes["blocks"], 7

    def one_block(slots: Any, binding: Any, *rest: Any) -> None:
        binding.pool.pages(binding.pool.array)[0, universe * size + 3, 0] ^= 1

    verdicts = spoiled("precopy", one_block)
    assert [u for u, v in enumerate(verdicts) if v.first is not None] == [universe]


def test_layouts_of_a_family_differ_in_their_pool_only() -> None:
    shapes = {msgspec.structs.replace(from_draw(Draw(s, family=3)).layout, num_blocks=2) for s in range(30)}
    assert len(shapes) == 1
    assert len({from_draw(Draw(s, family=3)).requests for s in range(30)}) == 30
    assert len({from_draw(Draw(1, family=f)).layout for f in range(12)}) > 6
