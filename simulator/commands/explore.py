"""Search every order of events, and with --workloads every workload, up to a bound; the bound that holds is printed.

Orders that differ only in events that commute are tried once, and states that were reached before are not gone on from.
Every acceptance of drafts is tried. The search goes on from its file with --resume.
"""

from __future__ import annotations

import argparse
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
    positive,
)
from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from stalerow.simulator.campaign.executors import Executor
    from stalerow.simulator.explore.exploration import Exploration
    from stalerow.simulator.explore.progress import Progress
    from stalerow.simulator.explore.search import Failing, Lease

FOLDER = Path(".stalerow") / "explore"


def configure(parser: argparse.ArgumentParser) -> None:
    from stalerow.simulator.commands.fuzz import duration

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
    from stalerow.simulator.explore.exploration import Exploration
    from stalerow.simulator.explore.progress import load

    asked = _asked(args)
    path = Path(args.file) if args.file else FOLDER / f"{_name(asked)}.json"
    progress = asked
    if args.resume:
        progress = load(path)
        if (progress.bounds, progress.subject, progress.start, progress.stop, progress.reduction) != (
            (asked.bounds, asked.subject, asked.start, asked.stop, asked.reduction)
        ):
            raise UsageError(f"{path}: is the search of other options ({progress.bounds}): give the same ones again")
    asked.subject.check()
    print(f"exploring {asked.subject}: {asked.bounds}")
    workloads = asked.stop - asked.start
    print(f"{workloads} workload{'s' * (workloads != 1)}, every acceptance of drafts, every order of events; {path}")
    if args.resume:
        print(f"{progress.finished} done before")
    exploration = Exploration(
        progress,
        path,
        lambda: _executor(args, asked.stop - asked.start),
        _Lines(),
        args.time,
        args.keep_going,
    )
    exploration.run()
    saved: list[Path] = []
    code = _told(exploration, args.failures, saved)
    if args.json:
        _answer(args, exploration, saved)
    if args.html:
        _report(args.html, exploration, saved)
    return code


def _asked(args: argparse.Namespace) -> Progress:
    from stalerow.simulator.explore.bounds import Bounds, total
    from stalerow.simulator.explore.orders import Reduction
    from stalerow.simulator.explore.progress import Progress
    from stalerow.simulator.run.subject import Subject

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
    stop = total(bounds)
    subject = Subject(kernels=args.kernels, device=args.device, faults=tuple(args.fault))
    reduction = Reduction(False, False) if args.no_reduction else Reduction()
    return Progress(
        bounds=bounds,
        subject=subject,
        reduction=reduction,
        start=0 if args.workloads else _largest(bounds),
        stop=stop if args.workloads else _largest(bounds) + 1,
    )


def _largest(bounds) -> int:
    """The workload with as many and as long requests as the bound allows, all there from the start, none aborted."""
    from stalerow.simulator.explore.bounds import Shape, number_of

    return number_of(bounds, [Shape(0, bounds.prompt, bounds.output)] * bounds.requests)


def _name(progress: Progress) -> str:
    """The file's name: another one for other options."""
    from hashlib import blake2b

    import msgspec

    options = progress.bounds, progress.subject, progress.start, progress.stop, progress.reduction
    return blake2b(msgspec.json.encode(options), digest_size=6).hexdigest()


def _executor(args: argparse.Namespace, workloads: int) -> Executor:
    from stalerow.simulator.campaign.executors import InProcess
    from stalerow.simulator.campaign.workers import Workers
    from stalerow.simulator.explore.search import do

    if args.ray is not None:
        from stalerow.simulator.campaign.clusters import RayCluster

        return RayCluster(do, args.ray or None)
    if workloads == 1:
        return InProcess(do)
    return Workers(min(job_count(args.jobs), workloads), do)


class _Lines:
    def tick(self, progress: Progress) -> None:
        """A line every few seconds."""
        left = progress.seconds_left()
        shown = "" if left is None else f", about {_time(left)} left"
        print(
            f"{progress.finished} of {progress.stop - progress.start} workloads, {progress.counts.runs} runs{shown}",
            flush=True,
        )

    def note(self, text: str) -> None:
        print(f"note: {text}", flush=True)

    def died(self, lease: Lease, how: str) -> None:
        print(f"a worker {how} at {lease}", flush=True)


def _report(path: str, exploration: Exploration, saved: list[Path]) -> None:
    """The page of the search, and one of each failure beside its file."""
    from stalerow.simulator.draw.html import page
    from stalerow.simulator.draw.recorder import recorded
    from stalerow.simulator.draw.report import exploration as report
    from stalerow.simulator.draw.results import console
    from stalerow.simulator.run.trust import replay_command

    progress, out = exploration.progress, console()
    pages = [file.with_suffix(".html") for file in saved]
    for failing, file, shown in zip(progress.failing, saved, pages, strict=True):
        subject = progress.subject.twin() or progress.subject
        again = replay_command(file, progress.subject)
        record = recorded(failing.schedule, subject.run, str(progress.subject), again)
        display.save(str(shown), page([record]), "page", out)
    display.save(path, report(progress, saved, pages, Path(path).absolute().parent), "page", out)


def _answer(args: argparse.Namespace, exploration: Exploration, saved: list[Path]) -> None:
    from stalerow.simulator.campaign.summary import Saved
    from stalerow.simulator.commands import answers

    progress = exploration.progress
    made = answers.ExploreAnswer(
        subject=progress.subject,
        bounds=progress.bounds,
        workloads=progress.stop - progress.start,
        done=progress.finished,
        schedules=progress.schedules,
        failed=progress.failed,
        counts=progress.counts,
        clean=None if progress.failing or exploration.deaths else progress.holds,
        failures=tuple(
            Saved(failing.violation.kind, failing.violation.launch, str(path))
            for failing, path in zip(progress.failing, saved, strict=True)
        ),
        crashed=tuple(f"{lease}: the process {how}" for lease, how in exploration.deaths),
        seconds=round(progress.seconds, 3),
        interrupted=exploration.interrupted,
    )
    answers.write(args, made)


def _told(exploration: Exploration, folder: str | None, saved: list[Path]) -> int:
    """Print what came of it; the exit code. `saved` gets the file of every failure."""
    progress = exploration.progress
    counts = progress.counts
    print(
        f"{progress.schedules} schedules, {counts.runs} runs, {counts.decisions} decisions visited; cut: "
        f"{counts.cut_commuting} choices that only swap events that commute, {counts.cut_asleep} runs for the same "
        f"reason, {counts.cut_states} runs at a state seen before"
    )
    for failing in progress.failing:
        saved.append(_tell(failing, progress, folder))
    for lease, how in exploration.deaths:
        print(f"CRASH  {lease}: the process {how}")
    bad = bool(progress.failing or exploration.deaths)
    if bad:
        print(f"{progress.failed} of {progress.schedules} schedules violate")
    elif progress.over:
        whole = progress.stop - progress.start > 1
        print(f"clean, exhaustively: {progress.bounds if whole else 'this workload'}")
    elif holds := progress.holds:
        print(f"clean, exhaustively, up to here: {holds}")
    if not progress.over:
        print(f"{progress.finished} of {progress.stop - progress.start} workloads done; --resume goes on")
    if exploration.interrupted:
        return 130
    if not bad and not progress.finished:
        raise UsageError("no workload was finished in time: give a longer --time or a smaller bound")
    return int(bad)


def _tell(failing: Failing, progress: Progress, folder: str | None) -> Path:
    """Save a failure and print it; where it was saved."""
    from stalerow.simulator.campaign import failures
    from stalerow.simulator.campaign.failures import Failure, Origin

    violation = failing.violation
    failure = Failure(
        kind=violation.kind,
        subject=progress.subject,
        violation=violation,
        digest=progress.subject.run(failing.schedule).digest,
        note="the smallest that an exhaustive search found",
        origin=Origin(kind=violation.kind, launch=violation.launch, requests=len(failing.schedule.requests)),
        versions=failures.versions(),
        schedule=failing.schedule,
    )
    path = failures.save(failure, folder or failures.FOLDER)
    requests = failing.schedule.requests
    shape = ", ".join(f"{r.prompt_len}+{r.max_tokens} tokens at {r.arrival}" for r in requests)
    deviations = failing.schedule.order.deviations
    order = "in canonical order" if not deviations else f"with {deviations} deviations from canonical order"
    print(f"FOUND  {violation.kind} in {violation.launch} during step {violation.during}, {order}")
    print(f"       smallest: {len(requests)} requests ({shape})")
    print(f"       {violation.explanation}")
    print(f"       saved: {path}")
    return path


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
