"""A seed stands for one schedule, whatever the process, the pipeline size or the runner."""

import os
import subprocess
import sys

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.choosers.recorded import RecordedChooser
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import from_seed, generate
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Schedule


def test_seeded_picks_do_not_change_between_releases() -> None:
    """Frozen: a seed that somebody wrote down must mean the same numbers for ever."""
    chooser = SeededChooser(2026)
    assert [chooser.pick(10) for _ in range(12)] == FROZEN_PICKS


FROZEN_PICKS = [1, 1, 4, 6, 1, 9, 6, 7, 0, 4, 3, 0]


def test_picks_are_in_range_and_unbiased() -> None:
    chooser = SeededChooser(1)
    counts = [0] * 7
    for _ in range(7000):
        counts[chooser.pick(7)] += 1
    assert min(counts) > 850
    assert max(counts) < 1150


def test_pipeline_size_and_runner_leave_the_rest_of_a_seed_alone() -> None:
    for seed in range(30):
        base = from_seed(seed)
        for pp in (1, 2, 4):
            for runner in ("v1", "v2"):
                other = from_seed(seed, pp, runner)
                assert other.requests == base.requests
                assert other.layout == base.layout
                assert (other.pipeline.pp, other.pipeline.runner) == (pp, runner)


def test_the_simplest_choices_make_the_simplest_schedule() -> None:
    simple = generate(RecordedChooser([]))
    assert len(simple.requests) == 1
    assert simple.order.deviations == 0
    assert not simple.aborts


def test_another_process_with_another_hash_seed_makes_the_same_bytes() -> None:
    program = (
        "from stalerow.simulator.schedule.generate import from_seed\n"
        "from stalerow.simulator.schedule.file import to_json\n"
        "import hashlib\nprint(hashlib.sha256(b''.join(to_json(from_seed(s)) for s in range(20))).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1


@pytest.mark.parametrize("seed", [0, 17, 2**63, 10**12])
def test_generation_is_repeatable(seed: int) -> None:
    assert to_json(from_seed(seed)) == to_json(from_seed(seed))


def test_every_limit_is_drawn_both_ways_and_the_plain_one_most_often() -> None:
    schedules = [from_seed(seed) for seed in range(200)]
    plain = Limits()
    names = ("long_prefill_token_threshold", "reserve_full_isl", "watermark", "shared_prefix_checkpoint")
    for name in (*names, "long_prefill_token_threshold_adaptive", "max_num_active_seqs"):
        drawn = [getattr(s.limits, name) == getattr(plain, name) for s in schedules]
        assert 0.7 * len(drawn) < sum(drawn) < len(drawn), name
    stops = [r.stop for s in schedules for r in s.requests]
    assert 0 < sum(stop > 0 for stop in stops) < len(stops) / 5


def test_a_request_with_a_stop_token_delivers_up_to_it() -> None:
    made = Schedule(
        pipeline=Pipeline(pp=2, drafts=2),
        layout=msgspec.structs.replace(from_seed(0).layout, num_drafts=2),
        limits=Limits(),
        requests=(Request(id="a", prompt_len=9, max_tokens=12, stream=1, stop=5, accepted=(1,)),),
    )
    outcome = run(made, kernel_set("reference:req-idx"))
    assert outcome.violations == ()
    assert outcome.marks["stop token"] == 1
    assert (
        "stop token"
        not in run(
            msgspec.structs.replace(made, requests=(msgspec.structs.replace(made.requests[0], stop=0),)),
            kernel_set("reference:req-idx"),
        ).marks
    )
