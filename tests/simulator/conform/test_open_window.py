"""The open window: a deferred copy into blocks that the same schedule has given to another request.

It is harmless only because the new owner's zeroing comes later on the same stream.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.conform.to_schedule import read_trace, to_schedule
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed

TRACE = Path(__file__).parents[2] / "data" / "traces" / "v032_12_P2_K2_realloc_at_M.json.gz"
KERNELS = kernel_set("reference:req-idx")


class ZeroesFirst(RankPolicy):
    """Appended blocks are taken, and zeroed, before the deferred output is consumed."""

    phases = ("update", "consume", "free", "admit", "apply")


@pytest.fixture
def recorded():
    return to_schedule(read_trace(TRACE), str(TRACE))


def test_the_recorded_run_passes_the_window_unharmed(recorded):
    outcome = run(recorded, KERNELS)
    assert outcome.marks["open window"] > 0
    assert outcome.clean


def test_random_runs_pass_it_too():
    seeds = (s for s in range(600) if run(from_seed(s, pp=2, runner="v2"), KERNELS).marks.get("open window"))
    assert next(seeds, None) is not None


def test_zeroing_before_the_deferred_copies_leaves_a_state_in_attention_kv(recorded):
    found = run(recorded, KERNELS, rank_policy=ZeroesFirst).violations
    damaged = [v for v in found if v.launch == "forward"]
    assert damaged
    assert all(v.kind == "use after free" for v in found)
    assert "attention block 22 (r11 (group 2, column 1)) is not zero" in damaged[0].explanation
    assert "it holds r1 after 56 tokens" in damaged[0].explanation
