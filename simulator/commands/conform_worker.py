"""`stalerow conform --worker`: our ranks against an engine's own worker, schedule by schedule.

The first schedule on which they differ is shrunk, printed, and saved with the command that repeats it.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.schedule.values import Schedule


def execute(args: argparse.Namespace, out: Console) -> int:
    from stalerow.simulator.commands.conformed import show, total
    from stalerow.simulator.commands.screen.progress import progress
    from stalerow.simulator.conform import Conformance
    from stalerow.simulator.worker.agreement import agreement
    from stalerow.simulator.worker.environment import environment
    from stalerow.simulator.worker.process import child

    schedules = _schedules(args)
    python = args.python or ""
    version = child(environment(args.worker, python)).version
    results: list[Conformance] = []
    wrong: list[str] = []
    begun = time.monotonic()
    with progress(f"{len(schedules)} schedules against {args.worker}'s own worker", len(schedules)) as advance:
        for name, schedule in schedules:
            found = agreement(args.worker, python, schedule)
            difference = None if found.difference is None else str(found.difference)
            results.append(Conformance(name, version, found.rank_steps, found.steps, found.values, difference))
            wrong += [f"{name}: {v.explanation}" for v in found.found]
            advance()
            if results[-1].difference is not None:
                break
    seconds = max(time.monotonic() - begun, 1e-9)
    if results[-1].difference is not None:
        show(out, results[-1], len(name))
        _small(args, out, name, schedule)
    for explanation in wrong:
        out.print(f"the worker itself, {explanation}", markup=False, soft_wrap=True)
    code = total(args, out, results) or int(bool(wrong))
    out.print(f"{seconds:.0f} s, {len(results) / seconds:.1f} schedules a second", markup=False)
    return code


def _schedules(args: argparse.Namespace) -> Sequence[tuple[str, Schedule]]:
    from stalerow.simulator.commands.conformed import RUNS
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.schedule.file import load
    from stalerow.simulator.schedule.generate import from_draw

    if args.traces:
        if args.runs or args.seeds:
            raise UsageError("saved schedules and --runs or --seeds: give one or the other")
        return [(name, load(Path(name))) for name in args.traces]
    if args.runs and args.seeds:
        raise UsageError("--runs N means --seeds 0:N: give one or the other")
    seeds = args.seeds or range(args.runs or RUNS)
    return [(f"seed {seed}", from_draw(Draw(seed=seed, runner="v2", faithful=True))) for seed in seeds]


def _small(args: argparse.Namespace, out: Console, name: str, schedule: Schedule) -> None:
    """Shrink the schedule, print where it differs, and save it with the command that repeats it."""
    from stalerow.simulator.campaign.candidates import signature
    from stalerow.simulator.campaign.shrink import shrink
    from stalerow.simulator.commands.conformed import FOLDER
    from stalerow.simulator.files import write_beside
    from stalerow.simulator.schedule.file import to_json
    from stalerow.simulator.subject.compared import Compared

    subject = Compared(worker=args.worker, python=args.python or "")
    (first, *_) = subject.run(schedule).violations
    out.print("shrinking", markup=False)
    small = shrink(subject, schedule, signature(first))
    (again, *_) = subject.run(small.schedule).violations
    path = Path(args.save or FOLDER / f"{Path(name).stem.replace(' ', '-')}-worker.json")
    write_beside(path, to_json(small.schedule))
    requests = len(small.schedule.requests)
    out.print(
        f"the smallest of {small.runs} schedules tried, {requests} request{'s' * (requests > 1)}: {again.explanation}",
        markup=False,
        soft_wrap=True,
    )
    python = f" --python {shlex.quote(args.python)}" if args.python else ""
    command = f"stalerow conform --worker {shlex.quote(args.worker)}{python} {shlex.quote(str(path))}"
    out.print(f"saved as {path}; repeat it with\n  {command}", markup=False, soft_wrap=True)
