"""Search every order of events, and with --workloads every workload, up to a bound; the bound that holds is printed.

Orders that differ only in events that commute are tried once, and states that were reached before are not gone on from.
Every acceptance of drafts is tried. The search goes on from its file with --resume.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.commands import display
from stalerow.simulator.commands.options import (
    add_device,
    add_fault,
    add_jobs,
    add_json,
    add_ray,
    job_count,
    number,
    number_or_error,
    positive,
    refuse_here_and_there,
)
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.schedule.generate import from_draw

if TYPE_CHECKING:
    from stalerow.simulator.campaign.executors import Executor
    from stalerow.simulator.explore.alone import Alone, AloneSearch
    from stalerow.simulator.explore.bounds import Bounds
    from stalerow.simulator.explore.exploration import Exploration
    from stalerow.simulator.explore.orders import Reduction
    from stalerow.simulator.explore.progress import Progress
    from stalerow.simulator.explore.search import Lease
    from stalerow.simulator.schedule.values import Schedule
    from stalerow.simulator.subject.subject import Subject

FOLDER = Path(".stalerow") / "explore"


def configure(parser: argparse.ArgumentParser) -> None:
    from stalerow.simulator.commands.fuzz import duration

    parser.add_argument(
        "schedule", metavar="SEED|FILE", nargs="?", help="search the orders of this schedule, not a bound's"
    )
    parser.add_argument("--kernels", default="req-idx", metavar="SET", help="kernel set (default: %(default)s)")
    parser.add_argument("--workloads", action="store_true", help="every workload up to the bound, not the largest only")
    sizes = parser.add_argument_group("the bound")
    for name, default, kind, text in (
        ("requests", 2, positive, "requests at most"),
        ("pp", 2, positive, "pipeline size"),
        ("steps", 8, positive, "engine steps from the start; what comes later is not looked at"),
        ("drafts", 1, number, "drafts per decode step"),
        ("block-size", None, positive, "tokens per block (default: one more than drafts, at least 2)"),
        ("prompt", 4, positive, "prompt tokens of a request at most"),
        ("output", 4, positive, "output tokens of a request at most"),
        ("gap", 1, number, "engine iterations between one arrival and the next at most"),
        ("staging-depth", None, positive, "buffers per staging pool (default: one per step that may be in flight)"),
    ):
        shown = "" if default is None else " (default: %(default)s)"
        sizes.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=text + shown)
    parser.set_defaults(sizes={action.dest: action.default for action in sizes._group_actions} | {"aborts": False})
    sizes.add_argument("--aborts", action="store_true", help="each request may also be aborted, at any step")
    parser.add_argument("--time", type=duration, default=None, metavar="T", help="stop after so long: 60s, 5m, 1h")
    parser.add_argument("--resume", action="store_true", help="go on with the search of these options from its file")
    parser.add_argument("--file", default=None, metavar="FILE", help="the search's file (default: by its options)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument(
        "--no-reduction", action="store_true", help="try orders that only swap commuting events too: for checking"
    )
    add_jobs(parser)
    add_ray(parser)
    add_fault(parser)
    parser.add_argument("--failures", default=None, metavar="DIR", help="where failures are saved")
    add_json(parser, "explore")
    display.add_html(parser, "the counts and a page of each failure")
    add_device(parser)


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.commands import explored

    search = _alone(args) if args.schedule is not None or not args.workloads else _bound(args)
    search.run()
    saved: list[Path] = []
    code = explored.tell(search, args.failures, saved)
    if args.json:
        explored.answer(args, search, saved)
    if args.html:
        explored.report(args.html, search, saved)
    return code


def _bound(args: argparse.Namespace) -> Exploration:
    """Every workload of the bound, over worker processes or a cluster."""
    from stalerow.simulator.explore.bounds import total
    from stalerow.simulator.explore.exploration import Exploration
    from stalerow.simulator.explore.progress import Progress, load

    refuse_here_and_there(args)
    bounds, subject, reduction = _bounds(args), _subject(args), _reduction(args)
    asked = Progress(bounds=bounds, subject=subject, reduction=reduction, stop=total(bounds))
    path = Path(args.file or FOLDER / f"{_name(bounds, subject, 0, asked.stop, reduction)}.json")
    progress = asked
    if args.resume:
        progress = load(path)
        if (progress.bounds, progress.subject, progress.start, progress.stop, progress.reduction) != (
            (asked.bounds, asked.subject, asked.start, asked.stop, asked.reduction)
        ):
            raise UsageError(f"{path}: is the search of other options ({progress.bounds}): give the same ones again")
    subject.check()
    print(f"exploring {subject}: {bounds}")
    print(f"{counted(asked.stop, 'workload')}, every acceptance of drafts, every order of events; {path}")
    if args.resume:
        print(f"{progress.finished} done before")
    return Exploration(progress, path, lambda: _executor(args, asked.stop), _Lines(), args.time, args.keep_going)


def _alone(args: argparse.Namespace) -> AloneSearch:
    """One workload: a schedule that is given, or the bound's largest."""
    from stalerow.simulator.explore.alone import Alone, AloneSearch, load

    if args.ray is not None or (args.jobs or 1) > 1:
        option = "--ray" if args.ray is not None else f"--jobs {args.jobs}"
        raise UsageError(f"{option}: one workload is searched in one process; leave it out, or give --workloads")
    subject, reduction = _subject(args), _reduction(args)
    if args.schedule is None:
        bounds = _bounds(args)
        asked = Alone(subject=subject, reduction=reduction, bounds=bounds, index=_largest(bounds))
    else:
        if args.workloads:
            raise UsageError(f"--workloads with {args.schedule}, which is one: leave one of them out")
        given = [name for name, default in args.sizes.items() if getattr(args, name) != default]
        if given:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise UsageError(f"{options}: a bound of workloads, and {args.schedule} is one: leave it out")
        asked = Alone(subject=subject, reduction=reduction, schedule=_given(args.schedule, subject))
        assert asked.schedule is not None
        subject.require(asked.schedule, args.schedule)
    name = _name(asked.schedule, asked.bounds, asked.index, subject, reduction)
    path = Path(args.file or FOLDER / f"{name}.json")
    progress = load(path, asked) if args.resume else asked
    subject.check()
    print(f"exploring {subject}: {asked.about}")
    acceptances = "its acceptances of drafts" if asked.schedule else "every acceptance of drafts"
    print(f"1 workload, {acceptances}, every order of events; {path}")
    if args.resume:
        print(f"{counted(progress.visits.runs, 'run')} done before")
    return AloneSearch(progress, path, _tick_alone, args.time, args.keep_going)


def _given(text: str, subject: Subject) -> Schedule:
    """The schedule of a seed or of a file, as `run` takes them."""
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.schedule.file import load

    if not re.fullmatch(r"[0-9]+", text):
        return load(text)
    return from_draw(Draw(number_or_error(text), faithful=subject.faithful_by_default))


def _tick_alone(progress: Alone) -> None:
    counts = progress.visits
    print(f"{counted(progress.tried, 'schedule')}, {counts.runs} runs, {counts.decisions} decisions", flush=True)


def _subject(args: argparse.Namespace) -> Subject:
    from stalerow.simulator.subject.subject import Subject

    return Subject(kernels=args.kernels, device=args.device, faults=tuple(args.fault))


def _reduction(args: argparse.Namespace) -> Reduction:
    from stalerow.simulator.explore.orders import Reduction

    return Reduction(False, False) if args.no_reduction else Reduction()


def _bounds(args: argparse.Namespace) -> Bounds:
    from stalerow.simulator.explore.bounds import Bounds

    bounds = Bounds(
        requests=args.requests,
        pp=args.pp,
        drafts=args.drafts,
        steps=args.steps,
        block_size=max(args.drafts + 1, 2) if args.block_size is None else args.block_size,
        prompt=args.prompt,
        output=args.output,
        gap=args.gap,
        aborts=args.aborts,
        staging_depth=args.staging_depth,
    )
    bounds.check()
    return bounds


def _largest(bounds: Bounds) -> int:
    """The workload with as many and as long requests as the bound allows, all there from the start, none aborted."""
    from stalerow.simulator.explore.bounds import Shape, number_of

    return number_of(bounds, [Shape(0, bounds.prompt, bounds.output)] * bounds.requests)


def _name(*options: object) -> str:
    """The file's name: another one for other options."""
    from hashlib import blake2b

    import msgspec

    return blake2b(msgspec.json.encode(options), digest_size=6).hexdigest()


def _executor(args: argparse.Namespace, workloads: int) -> Executor:
    from stalerow.simulator.campaign.workers import Workers
    from stalerow.simulator.explore.search import do

    if args.ray is not None:
        from stalerow.simulator.campaign.clusters import RayCluster

        return RayCluster(do, args.ray or None)
    return Workers(min(job_count(args.jobs), workloads), do)


class _Lines:
    def tick(self, progress: Progress) -> None:
        """A line every few seconds."""
        left = progress.seconds_left()
        shown = "" if left is None else f", about {_time(left)} left"
        print(
            f"{progress.finished} of {progress.workloads} workloads, {progress.counts.runs} runs{shown}",
            flush=True,
        )

    def note(self, text: str) -> None:
        print(f"note: {text}", flush=True)

    def died(self, lease: Lease, how: str) -> None:
        print(f"a worker {how} at {lease}", flush=True)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
