"""Which schedules the engine being modelled may meet, and the way there from any other."""

from __future__ import annotations

import msgspec
import pytest

from stalerow.kernels.base.layout import StateSpec
from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.faithful import as_faithful, is_faithful
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.order import Order

SEEDS = range(200)


def change(value, **fields):
    return msgspec.structs.replace(value, **fields)


@pytest.fixture(scope="module")
def faithful():
    schedule = next(s for s in map(from_seed, SEEDS) if s.pipeline.drafts > 1 and s.pipeline.runner == "v2")
    return as_faithful(schedule)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_schedule_has_a_faithful_one_near_it(seed):
    schedule = from_seed(seed)
    near = as_faithful(schedule)
    assert is_faithful(near) == []
    assert as_faithful(near) is near
    assert [(r.id, r.prompt_len) for r in near.requests] == [(r.id, r.prompt_len) for r in schedule.requests]
    assert (near.pipeline.pp, near.aborts, near.order) == (schedule.pipeline.pp, schedule.aborts, schedule.order)


def test_faithful_schedules_run_and_still_find_the_bug():
    kernels = {name: kernel_set(f"reference:{name}") for name in ("req-idx", "batch-row")}
    found = 0
    for seed in range(20):
        schedule = as_faithful(from_seed(seed, pp=2, runner="v2"))
        assert run(schedule, kernels["req-idx"]).clean
        found += not run(schedule, kernels["batch-row"]).clean
    assert found > 2


def layout(schedule, **fields):
    return change(schedule, layout=change(schedule.layout, **fields))


def limits(schedule, **fields):
    return change(schedule, limits=change(schedule.limits, **fields))


def group(schedule, kind, **fields):
    groups = tuple(change(g, **fields) if g.kind == kind else g for g in schedule.layout.groups)
    return layout(schedule, groups=groups)


def states(*kinds):
    return {"kind": "recurrent", "states": tuple(StateSpec(kind, 16, 2) for kind in kinds)}


CASES = {
    "runner v1 with pp > 1": lambda s: change(
        s, pipeline=change(s.pipeline, runner="v1", async_scheduling=False, pp=2), order=Order()
    ),
    "a decode step spans blocks": lambda s: layout(
        s, groups=tuple(change(g, block_size=s.pipeline.drafts) for g in s.layout.groups)
    ),
    "prefix_caching false": lambda s: limits(s, prefix_caching=False),
    "no step could fill one": lambda s: limits(s, max_num_batched_tokens=s.layout.recurrent_block_size - 1),
    "the engine refuses it": lambda s: limits(s, max_num_seqs=s.limits.max_num_batched_tokens + 1),
    "staging_depth 1": lambda s: limits(s, staging_depth=1),
    "graph sizes": lambda s: limits(s, graph_sizes=(1000,)),
    "the engine makes them equal": lambda s: group(s, "attention", block_size=2 * s.layout.recurrent_block_size),
    "the engine puts conv first": lambda s: group(s, **states("temporal", "conv")),
    "an odd number of KV bytes": lambda s: group(s, "attention", kv_bytes=9),
    "multiples of 16": lambda s: layout(s, base_offset=4),
    "one-byte elements": lambda s: group(s, kind="recurrent", states=(StateSpec("temporal", 16, 1),)),
}


@pytest.mark.parametrize("words", CASES)
def test_a_deviation_is_named_and_taken_away(faithful, words):
    odd = CASES[words](faithful)
    assert any(words in reason for reason in is_faithful(odd))
    assert is_faithful(as_faithful(odd)) == []
