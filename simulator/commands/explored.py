"""What a search came to: printed, saved, as a page and as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.commands import display
from stalerow.simulator.commands.untested import untested
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.explain.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.explore.alone import AloneSearch
    from stalerow.simulator.explore.exploration import Exploration
    from stalerow.simulator.explore.progress import Sums
    from stalerow.simulator.explore.search import Failing
    from stalerow.simulator.subject.subject import Subject


def report(path: str, search: Exploration | AloneSearch, saved: list[Path]) -> None:
    """The page of the search, and one of each failure beside its file."""
    from stalerow.simulator.commands.screen.report import exploration
    from stalerow.simulator.commands.screen.results import console

    progress, out = search.progress, console()
    pages = [_page(file, failing, progress.subject, out) for failing, file in zip(progress.failing, saved, strict=True)]
    display.save(path, exploration(progress, saved, pages, Path(path).absolute().parent), "page", out)


def _page(file: Path, failing: Failing, subject: Subject, out: Console) -> Path | None:
    """The page of a failure saved in `file`, written beside it; None where to make it could end the process."""
    from stalerow.simulator.campaign.failing import failing_record
    from stalerow.simulator.draw.html import page
    from stalerow.simulator.subject.trust import replay_command

    record = failing_record(subject, failing.schedule, failing.violation.kind, replay_command(file, subject))
    if record is None:
        return None
    shown = file.with_suffix(".html")
    display.save(str(shown), page([record]), "page", out)
    return shown


def answer(args: argparse.Namespace, search: Exploration | AloneSearch, saved: list[Path]) -> None:
    from stalerow.simulator.campaign.summary import Saved
    from stalerow.simulator.commands import answers

    progress = search.progress
    made = answers.ExploreAnswer(
        subject=progress.subject,
        bounds=progress.bounds,
        workloads=progress.workloads,
        done=progress.finished,
        schedules=progress.tried,
        failed=progress.violating,
        counts=progress.visits,
        skipped=progress.skipped,
        clean=None if progress.failing or search.deaths or not progress.tried else progress.holds,
        failures=tuple(
            Saved(failing.violation.kind, failing.violation.launch, str(path))
            for failing, path in zip(progress.failing, saved, strict=True)
        ),
        crashed=tuple(f"{lease}: the process {how}" for lease, how in search.deaths),
        seconds=round(progress.seconds, 3),
        interrupted=search.interrupted,
    )
    answers.write(args, made)


def tell(search: Exploration | AloneSearch, folder: str | None, saved: list[Path]) -> int:
    """Print what came of it; the exit code. `saved` gets the file of every failure."""
    progress = search.progress
    counts = progress.visits
    print(
        f"{counted(progress.tried, 'schedule')}, {counted(counts.runs, 'run')}, "
        f"{counts.decisions} decisions visited; cut: "
        f"{counts.cut_commuting} choices that only swap events that commute, {counts.cut_asleep} runs for the same "
        f"reason, {counts.cut_states} runs at a state seen before"
    )
    for failing in progress.failing:
        saved.append(_tell(failing, progress, folder))
    for lease, how in search.deaths:
        print(f"CRASH  {lease}: the process {how}")
    bad = bool(progress.failing or search.deaths)
    if progress.skipped:
        print(f"skipped: {counted(progress.skipped, 'schedule')} without what the fault needs")
    if bad:
        print(f"{progress.violating} of {progress.tried} schedules violate")
    elif progress.skipped and not progress.tried:
        print("nothing was run: no schedule has what the fault needs")
    elif progress.over:
        print(f"clean, exhaustively: {progress.holds or 'this workload'}")
    elif holds := progress.holds:
        print(f"clean, exhaustively, up to here: {holds}")
    if not progress.over:
        print(f"{progress.finished} of {counted(progress.workloads, 'workload')} done; --resume goes on")
    if search.interrupted:
        return 130
    if not bad and not progress.finished:
        raise UsageError("no workload was finished in time: give a longer --time or a smaller bound")
    if bad:
        return 1
    return untested(progress.subject, progress.uses, lambda text: print(f"note: {text}"))


def _tell(failing: Failing, progress: Sums, folder: str | None) -> Path:
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
    print(f"       smallest: {counted(len(requests), 'request')} ({shape})")
    print(f"       {violation.explanation}")
    print(f"       saved: {path}")
    return path
