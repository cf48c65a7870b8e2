"""Run the same schedules through two or more kernel sets and show, side by side, what crosses between requests."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stalerow.simulator.commands import display
from stalerow.simulator.commands.options import (
    add_device,
    add_engine,
    add_fault,
    add_jobs,
    add_json,
    add_only_faithful,
    add_worker,
    job_count,
    ranks,
    released_engines,
    seed_list,
)
from stalerow.simulator.schedule.generate import from_draw

if TYPE_CHECKING:
    from stalerow.simulator.campaign.compare import Row, Setting
    from stalerow.simulator.draw.record import Record
    from stalerow.simulator.run.outcome import FaultUse

TRITON_SEEDS = range(0, 10)
REFERENCE_SEEDS = range(0, 100)
SCHEDULE_S = 300.0
"""A schedule that takes longer is taken for hung."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernels",
        nargs="+",
        default=["batch-row", "req-idx"],
        metavar="SET",
        help="kernel sets: req-idx, batch-row, reference:req-idx, reference:batch-row, a release (vllm==X), a path",
    )
    parser.add_argument("--pp", nargs="+", type=ranks, default=[1, 2, 4], metavar="P", help="pipeline sizes")
    parser.add_argument("--runner", nargs="+", choices=("v1", "v2"), default=["v2", "v1"], help="model runners")
    parser.add_argument(
        "--seeds",
        type=seed_list,
        default=None,
        metavar="SEEDS",
        help="A:B for seeds A to B-1, a list as 3,7,9:40, or a file of them (default: 0:10, 0:100 for references)",
    )
    add_json(parser, "compare")
    display.add_html(parser, "the table, and two of the runs side by side,")
    add_fault(parser)
    add_only_faithful(parser)
    add_engine(parser, several=True)
    add_worker(parser, python=False, several=True)
    add_jobs(parser)
    add_device(parser)


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.campaign.compare import CHUNK, Row, Setting, results
    from stalerow.simulator.commands.screen.progress import progress
    from stalerow.simulator.commands.screen.results import print_comparison
    from stalerow.simulator.commands.untested import untested
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.subject.subject import Subject

    subjects = [Subject(kernels=name, device=args.device, faults=tuple(args.fault)) for name in args.kernels]
    subjects += [Subject(worker=name, python=args.python or "") for name in args.worker]
    for subject in subjects:
        subject.check()
    triton = any(not k.startswith("reference:") for k in args.kernels)
    seeds = args.seeds or (TRITON_SEEDS if triton else REFERENCE_SEEDS)
    engines = _engines(args.engine, args.python)
    faithful = args.only_faithful
    if faithful is None:
        faithful = any(subject.faithful_by_default for subject in subjects)
    settings = [
        Setting(subject, Draw(seeds[0], pp=pp, runner=runner, faithful=faithful, profile=profile), python)
        for runner in args.runner
        for pp in args.pp
        for subject in subjects
        for profile, python in engines
    ]
    rows = {setting: Row.of(setting) for setting in settings}
    uses: list[FaultUse] = []
    jobs = job_count(args.jobs)
    interrupted = False
    try:
        with progress(f"{len(seeds)} schedules a setting, {jobs} jobs", len(seeds) * len(settings)) as advance:
            for result in results(settings, seeds, jobs, SCHEDULE_S * CHUNK):
                rows[result.setting].add(result)
                uses += result.faults
                advance()
    except KeyboardInterrupt:
        interrupted = True
    table = list(rows.values())
    print_comparison(table, settings, ended=not interrupted)
    if args.json:
        from stalerow.simulator.commands import answers

        answers.write(args, answers.CompareAnswer(seeds=tuple(seeds), rows=tuple(table)))
    if args.html:
        from stalerow.simulator.commands.screen.report import comparison
        from stalerow.simulator.commands.screen.results import console

        page = comparison(table, seeds, _side_by_side(table, settings))
        display.save(args.html, page, "page", console())
    if interrupted:
        done = sum(row.schedules + row.refused + row.skipped for row in table)
        print(f"interrupted: the table is of {done} of {len(seeds) * len(settings)} runs")
        return 130
    if any(row.violating for row in table):
        return 1
    nothing = untested(subjects[0], uses, lambda text: print(f"note: {text}"))
    return nothing if any(row.schedules for row in table) else 2


def _side_by_side(rows: Sequence[Row], settings: Sequence[Setting]) -> list[Record]:
    """The first violating run and, of the same schedule, that of the kernel set with the fewest violations."""
    from stalerow.simulator.draw.recorder import recorded

    # What an installed scheduler decided is not in the schedule, and what killed its process would kill this one.
    shown = [
        (row.first, setting)
        for row, setting in zip(rows, settings, strict=True)
        if row.first is not None and row.first.launch != "process" and not setting.python
    ]
    if not shown:
        return []
    first, violating = min(shown, key=lambda pair: (pair[1].draw.pp or 0, pair[0].draw.seed))
    rivals = [
        (row.violating, setting.subject)
        for row, setting in zip(rows, settings, strict=True)
        if setting.draw == violating.draw and setting.subject != violating.subject and not setting.python
    ]
    subjects = [violating.subject, *[subject for _, subject in sorted(rivals, key=lambda rival: rival[0])[:1]]]
    schedule = from_draw(first.draw)
    return [recorded(schedule, subject.run, str(subject), first.draw.command(subject)) for subject in subjects]


def _engines(names: list[str], python: str | None) -> list[tuple[str | None, str]]:
    """(profile, python) per engine; beside an installed release, our own engine follows that release's rules too."""
    if "vllm" not in names:
        return [(None, "")]
    with released_engines(python) as released:
        return [(released.profile, str(python) if name == "vllm" else "") for name in names]
