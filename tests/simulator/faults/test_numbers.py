"""The numbers of the reports, where they are arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from stalerow.kernels.align.precopy import precopy
from stalerow.kernels.base.binding import bind
from stalerow.kernels.base.device import NumpyBackend
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import BlockTables, OutOfBounds, Pool, SlotState
from stalerow.kernels.sets import kernel_set
from stalerow.simulator.engine.config import EngineConfig, GroupConfig
from stalerow.simulator.engine.policies import ChunkPolicy
from stalerow.simulator.engine.profiles import profile
from stalerow.simulator.engine.request import Request as EngineRequest
from stalerow.simulator.engine.rules import CacheRules
from stalerow.simulator.engine.step import NewRequest
from stalerow.simulator.faults import builtin_faults, resolve
from stalerow.simulator.faults.launches import narrow_product
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Schedule

STATE = StateSpec("temporal", 8)


def _schedule(recurrent: int, attention: int) -> Schedule:
    groups = (GroupSpec("recurrent", recurrent, states=(STATE,)), GroupSpec("attention", attention))
    return Schedule(
        pipeline=Pipeline(drafts=1),
        layout=Layout(groups=groups, layers=1, num_blocks=8, num_drafts=1),
        limits=Limits(),
        requests=(Request(id="r0", prompt_len=1, max_tokens=1, stream=0),),
    )


def _hit(num_tokens: int) -> NewRequest:
    return NewRequest("r0", num_tokens + 1, (), num_tokens, ((), ()), False, 0, 1)


@pytest.mark.parametrize(
    ("num_tokens", "recurrent", "engine", "right", "wrong"),
    [(100096, 2176, 128, 45, 781), (134400, 4480, 16, 29, 8399), (11520, 1152, 16, 9, 719)],
)
def test_the_seeded_column_in_the_engines_blocks_and_in_mambas(
    num_tokens: int, recurrent: int, engine: int, right: int, wrong: int
) -> None:
    schedule = _schedule(recurrent, engine)
    faulty = builtin_faults()["seed-units"].rank
    assert faulty is not None
    assert RankPolicy(schedule).seed_column(_hit(num_tokens), recurrent) == right
    assert faulty(schedule).seed_column(_hit(num_tokens), recurrent) == wrong


def test_column_8399_is_outside_a_row_of_123() -> None:
    schedule, backend = _schedule(4480, 16), NumpyBackend()
    faulty = builtin_faults()["seed-units"].rank
    assert faulty is not None
    layout = schedule.layout
    pool, tables, slots = Pool(layout, backend), BlockTables(layout, 1, 123, backend), SlotState(1, 8, backend)
    binding = bind(layout, pool, [tables.persistent[0]], [tables.gathered[0]], backend)
    slots.src_col[0] = faulty(schedule).seed_column(_hit(134400), 4480)
    slots.state_idx[0] = 30
    with pytest.raises(OutOfBounds) as raised:
        precopy(slots, binding, np.array([0]), 1, row_is_slot=True)
    assert (raised.value.column, raised.value.bound) == (8399, 123)


def test_two_chunk_grids_of_816_and_1648_tokens_first_meet_at_84048() -> None:
    config = EngineConfig(
        groups=(GroupConfig("recurrent", 1648), GroupConfig("attention", 816)),
        num_blocks=1000,
        max_num_batched_tokens=2048,
        max_model_len=200_000,
    )
    rules = CacheRules.of(config, profile("0.33"))
    ends = {}
    wrong = resolve(["wrong-grid-split"]).policies().chunks
    for name, policy, budget in (("right", ChunkPolicy(), 2048), ("wrong", wrong, 1024)):
        request = EngineRequest("r0", [0] * 100_000, 100_000, 1)
        start, ends[name] = 0, []
        while start < 90_000:
            start += policy.clip(request, start, min(budget, 100_000 - start), config, rules)
            ends[name].append(start)
    assert {end % 1648 for end in ends["right"][:50]} == {0}
    assert next(end for end in ends["wrong"] if end % 1648 == 0) == 84048
    assert {end % 816 for end in ends["wrong"] if end < 84048} >= {0}


def test_a_copy_of_page_stride_moves_768_bytes_where_the_state_has_256() -> None:
    states = tuple(StateSpec("temporal", 256) for _ in range(3))
    layout = Layout(groups=(GroupSpec("recurrent", 8, states=states),), layers=1, num_blocks=4, num_drafts=1)
    assert (layout.page_bytes, layout.states[0].data_bytes) == (768, 256)
    moved = {}
    schedule = _schedule(8, 8)
    for name, faults in (("right", []), ("wrong", ["page-stride-copy"])):
        kernels, backend = resolve(faults).kernels(kernel_set("reference:req-idx"), schedule), NumpyBackend()
        pool, tables, slots = Pool(layout, backend), BlockTables(layout, 1, 4, backend), SlotState(1, 8, backend)
        tables.persistent[0][0, :2] = (1, 2)
        binding = bind(layout, pool, [tables.persistent[0]], [tables.gathered[0]], backend)
        object.__setattr__(binding, "layout", layout)
        vars(binding)["host_states"] = binding.host_states[:1]
        pages = pool.pages(pool.array)
        pages[0, 1], pages[0, 2] = 1, 2
        slots.src_col[0], slots.state_idx[0] = 0, 1
        kernels.align.precopy(slots, binding, np.array([0]), 1)
        moved[name] = int((pages[0, 2] == 1).sum())
    assert moved == {"right": 256, "wrong": 768}


def test_a_product_of_32_bits_turns_negative_at_two_gigabytes() -> None:
    assert narrow_product(1023, 1 << 21) == 1023 << 21
    assert narrow_product(1024, 1 << 21) == -(1 << 31)
    assert narrow_product(2048, 1 << 21) == 0
