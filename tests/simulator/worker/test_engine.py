"""The engine's own worker under schedules. Needs its environment: see 'stalerow worker'."""

import os

import pytest

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.errors import UsageError
from stalerow.simulator.run.subject import Subject
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Schedule
from stalerow.simulator.worker.environment import environment

SEEDS = range(8)
ONE_TOKEN = Schedule(
    pipeline=Pipeline(pp=1, drafts=2),
    layout=Layout(
        groups=(
            GroupSpec("recurrent", 8, states=(StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2))),
            GroupSpec("attention", 8, kv_bytes=8),
        ),
        layers=1,
        num_blocks=40,
        num_drafts=2,
    ),
    limits=Limits(max_model_len=64),
    requests=(
        Request(id="r0", prompt_len=6, max_tokens=20, stream=0, accepted=(1,)),
        Request(id="r1", arrival=5, prompt_len=1, max_tokens=8, stream=1, accepted=(1,)),
    ),
)
"""A request of one token joins one that decodes."""


def subject(release: str) -> Subject:
    python = os.environ.get("STALEROW_WORKER_PYTHON", "")
    try:
        environment(f"vllm=={release}", python)
    except UsageError as error:
        pytest.skip(str(error))
    return Subject(worker=f"vllm=={release}", python=python)


def schedule(seed: int):
    return Draw(seed=seed, pp=2, runner="v2", faithful=True).schedule()


def test_the_release_with_the_fix_is_clean():
    engine = subject("0.32.0")
    outcomes = [engine.run(schedule(seed)) for seed in SEEDS]
    assert [v.explanation for outcome in outcomes for v in outcome.violations] == []
    assert any(outcome.marks.get("deferred postprocess over a re-gathered table") for outcome in outcomes)


def test_a_schedule_gives_the_same_digest_again():
    engine = subject("0.32.0")
    assert engine.run(schedule(1)).digest == engine.run(schedule(1)).digest


def test_the_release_before_the_fix_copies_through_another_row():
    engine = subject("0.30.0")
    found = [v for seed in range(30) for v in engine.run(schedule(seed)).violations]
    assert any(v.launch == "postprocess" and v.deferred for v in found)


@pytest.mark.parametrize("release", ["0.33.0", "0.34.0"])
def test_a_padded_prompt_of_one_token_runs_as_a_prefill(release):
    (first, *_) = subject(release).run(ONE_TOKEN).violations
    assert (first.kind, first.launch, first.request) == ("wrong position", "forward", "r1")
    assert "runs as a plain row" in first.explanation
