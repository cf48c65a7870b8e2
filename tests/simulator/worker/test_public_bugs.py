"""Public bugs in releases' own workers: each schedule fails in the release that had the bug, and not in the next one.

Needs the environment of --worker, with the files of the releases named here.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import pytest

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Schedule
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.worker.environment import environment


def schedule(*requests: Request, pp: int = 1, drafts: int = 1, blocks: tuple[int, int] = (4, 4), **given) -> Schedule:
    recurrent, attention = blocks
    states = (StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2))
    groups = (GroupSpec("recurrent", recurrent, states=states), GroupSpec("attention", attention, kv_bytes=8))
    ranges = given.pop("drafts_per_batch_size", ())
    return Schedule(
        pipeline=Pipeline(pp=pp, drafts=drafts, drafts_per_batch_size=ranges),
        layout=Layout(groups=groups, layers=1, num_blocks=120, num_drafts=drafts),
        limits=Limits(max_model_len=64, **given),
        requests=requests,
    )


@dataclass(frozen=True)
class Bug:
    """`had` is a release with the bug, `without` the first that has it no more; `says` is in the first violation."""

    reports: tuple[str, ...]
    had: str
    without: str
    schedule: Schedule
    kind: str
    says: str


BUGS = {
    # Seed 10 at two ranks: a boundary is crossed by accepted drafts while another batch is in flight.
    "stale-row": Bug(
        ("vllm#55506", "vllm#55951"),
        "0.31.0",
        "0.32.0",
        from_draw(Draw(seed=10, pp=2, runner="v2", faithful=True)),
        "cross-request copy",
        "postprocess of step",
    ),
    "seed-units": Bug(
        ("vllm#53142", "vllm#53798"),
        "0.31.0",
        "0.32.0",
        schedule(
            Request(id="r0", prompt_len=20, max_tokens=2, stream=0, accepted=(1,)),
            Request(id="r1", arrival=8, prompt_len=20, max_tokens=2, stream=0, accepted=(1,)),
            blocks=(8, 2),
        ),
        "wrong position",
        "precopy of step",
    ),
    "unzeroed-block": Bug(
        ("vllm#51562",),
        "0.30.0",
        "0.31.0",
        schedule(Request(id="r0", prompt_len=1, max_tokens=2, stream=0, accepted=(1,))),
        "uninitialised read",
        "is told to start from a state in memory, though it has none",
    ),
    "uncommitted-accept": Bug(
        ("vllm#56531",),
        "0.31.0",
        "0.32.0",
        schedule(
            Request(id="r0", prompt_len=6, max_tokens=14, stream=0, accepted=(2,)),
            Request(id="r1", arrival=5, prompt_len=6, max_tokens=6, stream=1, accepted=(2,)),
            drafts=2,
            drafts_per_batch_size=((1, 1, 2), (2, 64, 0)),
        ),
        "wrong position",
        "r0 runs as a plain row; 0 of its 1 tokens are drafts",
    ),
    "broadcast-width": Bug(
        (),
        "0.29.0",
        "0.30.0",
        schedule(Request(id="r0", prompt_len=3, max_tokens=4, stream=0, accepted=(1,)), pp=2, blocks=(8, 8)),
        "engine raised",
        "the last rank sent",
    ),
}


def subject(release: str) -> Subject:
    python = os.environ.get("STALEROW_WORKER_PYTHON", "")
    try:
        environment(f"vllm=={release}", python)
    except UsageError as error:
        pytest.skip(str(error))
    return Subject(worker=f"vllm=={release}", python=python)


# By release, so that each engine is imported once and then stays warm.
@pytest.mark.parametrize("name", sorted(BUGS, key=lambda name: BUGS[name].had))
def test_the_release_with_the_bug_fails(name):
    bug = BUGS[name]
    (first, *_) = subject(bug.had).run(bug.schedule).violations
    assert first.kind == bug.kind
    assert re.search(bug.says, first.explanation)


@pytest.mark.parametrize("name", sorted(BUGS, key=lambda name: BUGS[name].without))
def test_the_first_release_without_it_is_clean(name):
    bug = BUGS[name]
    outcome = subject(bug.without).run(bug.schedule)
    assert [v.explanation for v in outcome.violations] == []
    assert outcome.steps > 3
