"""The live comparison: random workloads, the child process, and a released scheduler where one is at hand."""

from __future__ import annotations

import hashlib
import json
import os
import sys

import pytest

from stalerow.simulator.conform.driver_setup import DEFAULTS
from stalerow.simulator.conform.driver_vllm import Released
from stalerow.simulator.conform.live import LiveError, LiveScheduler, conform_live
from stalerow.simulator.conform.trace import Workload
from stalerow.simulator.conform.workloads import random_task

PYTHON = "STALEROW_VLLM_PYTHON"


LATER_OPTIONS = ("long_prefill_token_threshold_adaptive", "max_num_active_seqs", "policy", "prefill_schedule_interval")
LATER_OPTIONS += ("drafter", "drafts_per_batch_size")
LATER_OPTIONS += ("num_prefill_checkpoint_blocks", "prefill_checkpoint_alignment")
LATER_OPTIONS += ("n_swa", "sliding_window")
LATER_OPTIONS += ("cache_aware_admission_window", "cache_aware_admission_threshold")
LATER_WISHES = ("cache_salt", "skip_reading_prefix_cache", "priority")


def test_a_seed_always_gives_the_same_workload():
    """Frozen: features that came later are drawn from streams of their own and leave the rest of a seed alone."""
    tasks = [random_task(seed) for seed in range(20)]
    assert tasks == [random_task(seed) for seed in range(20)]
    for options, workload in tasks:
        for name in LATER_OPTIONS:
            del options[name]
        del workload["resets"]
        for request in workload["requests"]:
            for name in LATER_WISHES:
                request.pop(name, None)
    text = json.dumps(tasks, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "6c9930c4fbcb0ce8"


def test_workloads_have_the_recorded_format():
    import msgspec

    for seed in range(20):
        _, workload = random_task(seed)
        assert msgspec.convert(workload, Workload).requests


def test_an_interpreter_that_does_not_exist_is_named():
    with (
        pytest.raises(LiveError, match="/no/such/python: expected a Python interpreter"),
        LiveScheduler("/no/such/python"),
    ):
        pass


def test_an_environment_without_vllm_says_so():
    with pytest.raises(LiveError, match=r"gave no answer: .*vllm"), LiveScheduler(sys.executable, {"PYTHONPATH": ""}):
        pass


def test_a_scheduler_that_was_not_started_cannot_run():
    with pytest.raises(LiveError, match="no child process"):
        LiveScheduler(sys.executable).run(*random_task(0))


@pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} names no Python that has vLLM")
def test_the_engine_agrees_with_an_installed_scheduler():
    with LiveScheduler(os.environ[PYTHON]) as scheduler:
        results = list(conform_live(scheduler, range(100)))
        assert [r.difference or r.raised for r in results if r.difference or r.raised] == []
        # A pool too small for one request's steps in flight: the release admits it, and preempts it for ever.
        assert {r.name: (r.held or "").partition(":")[0] for r in results if r.held} == {"seed 6": "preemption loop"}
        assert sum(result.steps for result in results) > 5000
        with pytest.raises(LiveError, match=r"ValueError|ValidationError"):
            scheduler.run({"block_size": -1}, {"requests": [], "aborts": []})
        assert next(conform_live(scheduler, [1])).agrees


def test_an_option_that_the_driver_does_not_know_is_refused_by_name_before_anything_is_made():
    with pytest.raises(ValueError, match=r"options \['encoder_budget'\]: not modelled; known are"):
        Released(None, "", {**DEFAULTS, "encoder_budget": 8})
