"""A released scheduler as the engine of a run: the adapter against a stand-in, and against an installed one."""

from __future__ import annotations

import os

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.conform.engine import ReleasedEngine, ReleasedEngines, released_options
from stalerow.simulator.conform.wire import step_record
from stalerow.simulator.engine import EngineConfig, EngineCore, GroupConfig
from stalerow.simulator.engine.request import RequestOptions
from stalerow.simulator.errors import UsageError
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.engine_config import engine_config
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.values import with_profile

PYTHON = "STALEROW_VLLM_PYTHON"
KERNELS = kernel_set("reference:req-idx")
SCHEDULER_FIELDS = {"total": 0, "running": [], "waiting": [], "free_blocks": 0, "deferred_frees": 0}


class Standin:
    """Answers a driver's messages with our own engine's decisions."""

    def __init__(self, config, profile):
        self.core = EngineCore(config, profile)

    def ask(self, message):
        ((name, argument),) = message.items()
        return {**getattr(self, name)(argument), "has_requests": self.core.has_requests}

    def add(self, item):
        options = msgspec.convert(item["options"], RequestOptions)
        self.core.add_request(item["id"], item["prompt"], item["max_tokens"], item["stop"], options)
        return {}

    def abort(self, ids):
        return {"aborted": self.core.abort(ids)}

    def reset(self, running):
        return {"done": self.core.reset_prefix_cache(running)}

    def schedule(self, _):
        step = self.core.schedule()
        record = step_record(step) | SCHEDULER_FIELDS | {"free_blocks": step.num_free_blocks}
        for row in record["scheduled"]:
            row |= {"placeholders_before": 0, "known_tokens": 0}
        return {
            "record": record,
            "prefill": {new.request: new.prefill_token_ids for new in step.new},
            "hashed": [(block, c.group, c.num_tokens, c.request) for block, c in step.hashed.items()],
            "futile": self.core.scheduler.last_step_was_futile,
        }

    def process(self, sampled):
        delivered = self.core.process(sampled)
        return {"delivered": dict(delivered.outputs), "ignored": delivered.ignored}


@pytest.mark.parametrize("seed", range(12))
def test_the_adapter_hands_on_what_the_scheduler_decides(seed):
    schedule = from_seed(seed)

    def engine(config):
        return ReleasedEngine(Standin(config, schedule.pipeline.profile), config)

    assert run(schedule, KERNELS, engine=engine) == run(schedule, KERNELS)


def test_options_are_mapped():
    options = released_options(engine_config(from_seed(0)))
    kinds = [kind for kind, _, _ in options["groups"]]
    assert kinds.count("attention") == 1
    assert options["K"] == from_seed(0).pipeline.drafts


def test_options_without_a_counterpart_are_refused():
    config = engine_config(from_seed(0))
    attention = GroupConfig("attention", 16)
    cases = [
        ({"enable_prefix_caching": False, "groups": config.groups}, "prefix_caching is false"),
        ({"groups": (attention, GroupConfig("attention", 32))}, r"block sizes \[16, 32\]"),
        ({"groups": (attention,)}, "no recurrent group"),
        ({"groups": (*config.groups, GroupConfig("attention", 8, window=8))}, "a sliding-window group"),
    ]
    for fields, words in cases:
        with pytest.raises(UsageError, match=words):
            released_options(EngineConfig(num_blocks=100, **fields))


@pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} names no Python that has vLLM")
def test_the_installed_scheduler_makes_the_steps_that_ours_makes():
    with ReleasedEngines(os.environ[PYTHON]) as engines:
        for seed in range(12):
            schedule = with_profile(from_seed(seed), engines.profile)
            outcome = run(schedule, KERNELS, engine=engines)
            assert outcome.clean
            assert outcome == run(schedule, KERNELS)
        off = msgspec.structs.replace(schedule.limits, prefix_caching=False)
        with pytest.raises(UsageError, match="prefix_caching"):
            run(msgspec.structs.replace(schedule, limits=off), KERNELS, engine=engines)
