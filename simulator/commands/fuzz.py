"""Run seeds in order over worker processes; shrink, save and draw the first failure of each kind."""

from __future__ import annotations

import argparse
import re
import signal
from typing import TYPE_CHECKING

from stalerow.simulator.commands import display
from stalerow.simulator.commands.options import (
    add_device,
    add_draw,
    add_fault,
    add_jobs,
    add_json,
    add_ray,
    add_worker,
    draw_of,
    job_count,
    number,
    positive,
    refuse_here_and_there,
    seed_list,
)

if TYPE_CHECKING:
    from stalerow.simulator.campaign.findings import Tally
    from stalerow.simulator.campaign.options import Options

DEFAULT_SECONDS = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kernels", default="req-idx", metavar="SET", help="kernel set (default: %(default)s)")
    parser.add_argument("--runs", type=positive, default=None, metavar="N", help="seeds to try, over all shards")
    parser.add_argument(
        "--time",
        type=duration,
        default=None,
        metavar="T",
        help="how long: 60s, 5m, 1h (default: 60s if --runs is not given either)",
    )
    parser.add_argument(
        "--schedule-time",
        type=duration,
        default=None,
        metavar="T",
        help="how long one schedule may take before it is a finding, a hang (default: 60s for references, 5m else)",
    )
    parser.add_argument("--seed", type=number, default=None, metavar="S", help="first seed (default: 0)")
    parser.add_argument(
        "--seeds", type=seed_list, default=None, metavar="SEEDS", help="these and no others: A:B, 3,7,9:40 or a file"
    )
    add_jobs(parser)
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="every N-th seed, from the I-th on")
    parser.add_argument(
        "--universes",
        type=positive,
        default=None,
        metavar="N",
        help="run N schedules side by side in one launch (runner v2), and alone only those that a check flags",
    )
    parser.add_argument(
        "--families",
        type=positive,
        default=4,
        metavar="F",
        help="with --universes: memory layouts that packs have in turn (default: %(default)s)",
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--require-marks", action="store_true", help="fail if a situation worth testing never occurred")
    parser.add_argument("--resume", action="store_true", help="go on with the campaign of these options")
    add_json(parser, "fuzz")
    add_ray(parser)
    add_fault(parser)
    add_worker(parser)
    add_draw(parser, family=False)
    display.add_html(parser, "what was found, with a page of each failure beside its file,")
    parser.add_argument(
        "--failures", default=None, metavar="DIR", help="where failures are saved (default: .stalerow/failures)"
    )
    add_device(parser)


def execute(args: argparse.Namespace) -> int:
    from pathlib import Path

    from stalerow.simulator.campaign import failures
    from stalerow.simulator.campaign.fuzz import Campaign
    from stalerow.simulator.campaign.options import Options
    from stalerow.simulator.commands.ci import Annotations
    from stalerow.simulator.commands.screen.campaign import Screen
    from stalerow.simulator.commands.untested import untested
    from stalerow.simulator.errors import UsageError
    from stalerow.simulator.subject.subject import Subject

    refuse_here_and_there(args)
    if args.universes and args.runner == "v1":
        raise UsageError("--universes runs under runner v2 only: leave out --runner v1")
    if args.universes and args.interleave:
        raise UsageError("--universes packs the launches of many schedules: leave out --interleave, or --universes")
    if args.universes and args.resume:
        raise UsageError("--resume does not go with --universes: packs keep no account of what is done")
    for name in ("seed", "runs") if args.seeds else ():
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} with --seeds, which says them all: leave one of them out")
    runs = len(args.seeds) if args.seeds else args.runs
    first = args.seeds[0] if args.seeds else args.seed or 0
    seconds = args.time if args.time or runs else DEFAULT_SECONDS
    if args.universes and args.worker:
        raise UsageError("--universes packs our own ranks: leave out --worker, or --universes")
    subject = Subject(
        kernels=args.kernels,
        device=args.device,
        faults=tuple(args.fault),
        worker=args.worker,
        python=args.python,
    )
    if subject.worker:
        subject.check()
    options = Options(
        subject=subject,
        draw=draw_of(args, first, subject),
        runs=runs,
        seeds=args.seeds if isinstance(args.seeds, tuple) else None,
        seconds=seconds,
        jobs=job_count(args.jobs),
        shard=args.shard,
        keep_going=args.keep_going,
        folder=Path(args.failures) if args.failures else failures.FOLDER,
        universes=args.universes,
        families=args.families,
        schedule_s=args.schedule_time or (60.0 if subject.kernels.startswith("reference:") else 300.0),
        resume=args.resume,
        ray=args.ray,
    )
    # A campaign that is told to end keeps what it has, whichever signal tells it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Screen(options) as screen:
        tally = Campaign(options, screen).run()
    screen.summary(tally, args.require_marks)
    if args.json:
        from stalerow.simulator.campaign.summary import of_campaign
        from stalerow.simulator.commands import answers

        answers.write(args, of_campaign(options, tally))
    if args.html:
        _report(args.html, options, tally)
    Annotations.from_environment().campaign(options, tally)
    nothing = untested(subject, tally.faults, screen.note)
    return tally.exit_code(args.require_marks) or nothing


def _report(path: str, options: Options, tally: Tally) -> None:
    """The campaign's page, and one of every failure that can be run again in this process, beside its file."""
    from pathlib import Path

    from stalerow.simulator.commands.failures import failing_page
    from stalerow.simulator.commands.screen.campaign import configuration
    from stalerow.simulator.commands.screen.report import campaign
    from stalerow.simulator.commands.screen.results import console

    out, pages = console(), {}
    for finding in tally.findings:
        shown = failing_page(finding.failure, finding.path, out)
        if shown is not None:
            pages[finding.path] = shown
    about = "; ".join(" ".join(line.split()) for line in configuration(options).splitlines())
    folder, took = Path(path).absolute().parent, f"in {tally.seconds:.1f} s"
    report = campaign(f"stalerow fuzz: {options.subject}", about, tally, pages, folder, took)
    display.save(path, report, "page", out)


def duration(text: str) -> float:
    """'60s', '5m', '1h' or plain seconds, for argparse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: give seconds, or 60s, 5m, 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def shard(text: str) -> tuple[int, int]:
    """'i/n' with 1 <= i <= n, for argparse."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shard: give I/N with I from 1 to N")
    return int(match[1]), int(match[2])
