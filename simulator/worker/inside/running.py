"""One schedule from question to answer: what a fork of the child does, and what the child does once before it forks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import traceback

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import OutOfBounds
from stalerow.simulator.oracle.violations import ENGINE, Violation
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Schedule
from stalerow.simulator.worker.inside import pipeline
from stalerow.simulator.worker.inside.warm import Engine
from stalerow.simulator.worker.inside.world import Enough, World
from stalerow.simulator.worker.protocol import Ran, Refused, Run

FIRST = Schedule(
    pipeline=Pipeline(pp=2, drafts=1),
    layout=Layout(
        groups=(
            GroupSpec("recurrent", 4, states=(StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2))),
            GroupSpec("attention", 4, kv_bytes=8),
        ),
        layers=1,
        num_blocks=64,
        num_drafts=1,
    ),
    limits=Limits(max_model_len=64),
    requests=tuple(Request(id=f"r{i}", prompt_len=6, max_tokens=5, stream=i, accepted=(1,)) for i in range(2)),
)
"""What the child runs once, so that no fork imports modules or rewrites kernels that the child can."""


def first_run(engine: Engine) -> None:
    """What is wrong with the engine is for the runs that follow to say: a fork of this process meets it again."""
    with contextlib.suppress(Exception):
        World(engine, Run(schedule=FIRST, first_only=False)).run()


def run(engine: Engine, question: Run) -> Ran | Refused:
    """Run one schedule in this process. What the engine itself raises is a violation, with file and line."""
    began = time.monotonic()
    try:
        world = World(engine, question)
    except Exception as error:
        checked = type(error).__module__.partition(".")[0] in ("pydantic", "pydantic_core")
        if not checked and not _engine_frames(error):
            raise
        return Refused(f"{type(error).__name__}: {' '.join(str(error).split())}")
    built, found = time.monotonic(), world.found
    try:
        world.run()
    except Enough:
        pass
    except Exception as error:
        violation = raised(error, world)
        if violation is None:
            raise
        found.append(violation)
        if world.recorder is not None:
            world.settle(violation)
            world.recorder.found(violation, len(found) - 1)
    digest = hashlib.blake2b(digest_size=16)
    for rank in world.ranks:
        digest.update(rank.judge.digest())
    for violation in found:
        digest.update(repr(violation.identity()).encode())
    return Ran(
        violations=tuple(found),
        marks=dict(world.marks),
        digest=digest.hexdigest(),
        steps=len(world.steps),
        taken=tuple(world.order.decisions),
        rank_steps=world.rank_steps,
        building=round(built - began, 4),
        seconds=round(time.monotonic() - began, 4),
        stopped=world.loop.stopped,
        ranks=tuple(r for rank in world.ranks for r in rank.judge.records),
        events=world.recorder.events() if world.recorder is not None else (),
        lookup=world.ranks[0].lookup,
    )


def _engine_frames(error: Exception) -> list[traceback.FrameSummary]:
    """The frames of the engine's own files, outermost first."""
    import vllm

    folders = tuple(os.path.join(folder, "") for folder in vllm.__path__)
    return [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(folders)]


def _folders(part: str) -> list[str]:
    return list(sys.modules[f"stalerow.{part}"].__path__)


def raised(error: Exception, world: World) -> Violation | None:
    """The engine's own exception as a violation; None if it comes from this project's code."""
    theirs = _engine_frames(error)
    raised_by = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = tuple(os.path.join(folder, "") for name in ("simulator", "kernels") for folder in _folders(name))
    known = isinstance(error, OutOfBounds | pipeline.BroadcastMismatch)
    if not theirs or (raised_by.startswith(ours) and not known):
        return None
    last = theirs[-1]
    where = f"vllm/{last.filename.rpartition('/vllm/')[2]}:{last.lineno}"
    step = max([r.step for r in world.ranks] + [len(world.steps)])
    said = " ".join(str(error).split())
    rank = world.group.rank if world.group.busy else ENGINE
    if isinstance(error, OutOfBounds):
        launch = getattr(error, "kernel", "forward")
        text = f"{launch} of step {step} on rank {rank} touches memory out of bounds: {said}"
        return Violation(
            kind="out of bounds",
            rank=rank,
            launch=launch,
            step=step,
            during=step,
            target_block=-1 if error.block_id is None else error.block_id,
            explanation=text,
        )
    text = f"the engine raised {type(error).__name__} in {last.name} ({where})" + (f": {said}" if said else "")
    return Violation(kind="engine raised", rank=rank, launch=last.name, step=step, during=step, explanation=text)
