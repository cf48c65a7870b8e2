"""Configuration: what is refused, and how."""

import re

import pytest
from engine_driver import engine, hybrid

from stalerow.simulator.engine import EngineConfig, GroupConfig, profile, profile_names

REFUSED = [
    ({"groups": ()}, "groups \\(\\): expected at least one"),
    ({"num_blocks": 0}, "num_blocks 0: expected 1 or more"),
    ({"num_blocks": 9, "num_speculative_tokens": 3}, "num_blocks 9: expected at least 10: the null block"),
    ({"pipeline_parallel_size": 0}, "pipeline_parallel_size 0: expected 1 or more"),
    ({"num_speculative_tokens": -1}, "num_speculative_tokens -1: expected 0 or more"),
    (
        {"max_num_batched_tokens": 4, "num_speculative_tokens": 4},
        "expected at least 5, a decode with its drafts",
    ),
    ({"max_model_len": 1}, "max_model_len 1: expected 2 or more"),
    ({"watermark": 1.0}, "watermark 1.0: expected a fraction"),
    ({"retention_interval": 24}, "retention_interval 24: expected None, 0 or a multiple of .* 16"),
    ({"prefix_match_unit": 5}, "prefix_match_unit 5 with block sizes .*: expected a common divisor"),
    ({"groups": (GroupConfig("recurrent", 8), GroupConfig("recurrent", 16))}, "expected one size for all"),
    ({"model_runner": 3}, "model_runner 3: expected 1 or 2"),
    (
        {"model_runner": 1, "pipeline_parallel_size": 2},
        "expected synchronous scheduling; set async_scheduling=False",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_a_refused_value_is_named_with_what_was_expected_and_a_remedy_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        EngineConfig(**({"groups": hybrid(), "num_blocks": 100} | options))
    assert "\n" not in str(caught.value)
    assert re.search("expected .*; ", str(caught.value))


def test_a_group_needs_a_known_kind_and_a_block_size():
    with pytest.raises(ValueError, match="group kind 'sliding'"):
        GroupConfig("sliding", 16)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="block_size 0"):
        GroupConfig("attention", 0)


def test_requests_that_can_never_run_are_refused_when_they_arrive():
    core = engine(max_model_len=32)
    with pytest.raises(ValueError, match="prompt of 0 tokens for request 'a': expected 1 to 31"):
        core.add_request("a", [], 4)
    with pytest.raises(ValueError, match="prompt of 32 tokens"):
        core.add_request("a", list(range(32)), 4)
    with pytest.raises(ValueError, match="max_tokens 0"):
        core.add_request("a", [1], 0)
    core.add_request("a", [1], 4)
    with pytest.raises(ValueError, match="request id 'a': expected an id that is not in use"):
        core.add_request("a", [1], 4)


@pytest.mark.parametrize(
    ("options", "depth"),
    [
        ({"pipeline_parallel_size": 1}, 2),
        ({"pipeline_parallel_size": 4}, 5),
        ({"pipeline_parallel_size": 1, "async_scheduling": False}, 1),
        ({"pipeline_parallel_size": 4, "async_scheduling": False}, 4),
        ({"pipeline_parallel_size": 1, "model_runner": 1}, 2),
    ],
)
def test_depth_of_the_fifo(options, depth):
    assert EngineConfig(hybrid(), 100, **options).max_inflight_steps == depth


def test_block_sizes_of_mixed_groups():
    config = EngineConfig(hybrid(16, attention_block_size=24), 100)
    assert (config.scheduler_block_size, config.hash_block_size, config.recurrent_block_size) == (48, 8, 16)


def worst_case(config: EngineConfig, tokens: int) -> int:
    """Blocks of one request: a recurrent group holds the running column, its speculative columns, and one for each step
    in flight and two more that wait to be retired; attention has all tokens and those of drafts that are in flight."""
    last = min(tokens + 2 * (1 + config.num_speculative_tokens), config.max_model_len)
    states = 4 + config.num_speculative_tokens + config.max_inflight_steps
    return sum(states if group.kind == "recurrent" else -(-last // group.block_size) + 1 for group in config.groups)


def test_a_pool_of_the_worst_case_never_preempts_a_request_that_is_alone():
    from engine_driver import Driver, prompt

    for drafts in (0, 1, 4):
        for stages in (1, 3):
            config = EngineConfig(hybrid(4), 1000, stages, drafts, max_model_len=200)
            core = engine(
                groups=hybrid(4),
                num_blocks=1 + worst_case(config, 150),
                pipeline_parallel_size=stages,
                num_speculative_tokens=drafts,
                max_model_len=200,
            )
            core.add_request("a", prompt(50), 100)
            driver = Driver(core, accept=lambda row: row.num_computed_tokens % 5).run()
            assert driver.outputs == {"a": 100}
            assert not any(step.preempted for step in driver.steps)


def test_profiles_are_found_by_any_form_of_their_version():
    assert profile("vllm==0.32.0") is profile("0.32")
    with pytest.raises(ValueError, match=r"profile .9\.9.: expected one of 0\.32, 0\.33, 0\.34"):
        profile("9.9")
    assert profile_names()[:3] == ("0.32", "0.33", "0.34")
