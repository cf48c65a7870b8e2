"""Saved failures: list them, and prune those that say nothing new or no longer fail."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.commands.options import add_jobs, add_json, add_trust, job_count
from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.campaign.again import Replayed
    from stalerow.simulator.campaign.failures import Failure
    from stalerow.simulator.commands.answers import Listed


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="what is saved, the smallest first")
    prune = actions.add_parser("prune", help="keep the smallest of each kind, launch and subject")
    prune.add_argument("--fixed", action="store_true", help="run all again and remove those that no longer fail, only")
    prune.add_argument("--dry-run", action="store_true", help="say what would be removed")
    add_jobs(prune)
    add_trust(prune)
    for action in (listing, prune):
        action.add_argument("--failures", default=None, metavar="DIR", help="the folder (default: .stalerow/failures)")
        add_json(action, "failures", instead=True)


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.campaign import failures

    folder = Path(args.failures) if args.failures else failures.FOLDER
    if args.failures and not folder.is_dir():
        raise UsageError(f"{folder}: is not a folder: give the one that --failures named before")
    loaded = [(path, failures.load(path).failure) for path in failures.saved(folder)]
    loaded.sort(key=lambda pair: (_size(pair[1]), str(pair[0])))
    removed: list[Path] = []
    if args.action == "prune":
        removed = _fixed([path for path, _ in loaded], args) if args.fixed else _repeated(loaded)
        for path in removed if not args.dry_run else ():
            path.unlink()
    kept = [(path, failure) for path, failure in loaded if path not in removed]
    _print([_listed(path, failure) for path, failure in kept], removed, args)
    return 0


def _size(failure: Failure) -> tuple[int, int, int]:
    return not failure.shrunk, len(failure.schedule.requests), failure.schedule.order.deviations


def _repeated(loaded: Sequence[tuple[Path, Failure]]) -> list[Path]:
    """All but the first of each kind, launch and subject."""
    seen, removed = set(), []
    for path, failure in loaded:
        key = (*failure.signature, failure.subject)
        if key in seen:
            removed.append(path)
        seen.add(key)
    return removed


def _fixed(paths: Sequence[Path], args: argparse.Namespace) -> list[Path]:
    from stalerow.simulator.campaign import failures
    from stalerow.simulator.campaign.again import replay_all
    from stalerow.simulator.subject.trust import refuse_untrusted

    for path in paths:
        refuse_untrusted(failures.load(path).failure.subject, str(path), args.trust)
    again = replay_all(paths, job_count(args.jobs))
    return [Path(replayed.path) for replayed in again if replayed.verdict == "no longer fails"]


def _listed(path: Path, failure: Failure) -> Listed:
    from stalerow.simulator.commands import answers

    kind, launch = failure.signature
    schedule = failure.schedule
    return answers.Listed(
        path=str(path),
        kind=kind,
        launch=launch,
        subject=str(failure.subject),
        requests=len(schedule.requests),
        deviations=schedule.order.deviations,
        shrunk=failure.shrunk,
    )


def _print(listed: Sequence[Listed], removed: Sequence[Path], args: argparse.Namespace) -> None:
    if args.json:
        from stalerow.simulator.commands import answers

        made = answers.FailuresAnswer(failures=tuple(listed), removed=tuple(str(path) for path in removed))
        answers.write(args, made)
        if args.json == answers.STDOUT:
            return
    for one in listed if args.action == "list" else ():
        where = f" in {one.launch}" if one.launch else ""
        size = f"{one.requests} request{'s' * (one.requests != 1)}, {one.deviations} deviations"
        print(f"{one.kind}{where}  {one.subject}  {size}{'' if one.shrunk else ', not shrunk'}\n    {one.path}")
    for path in removed:
        print(f"{'would remove' if args.dry_run else 'removed'} {path}")
    if args.action == "list" and not listed:
        print("no saved failures")
    if args.action == "prune" and not removed:
        print("nothing to remove")


def failing_page(failure: Failure, path: Path, out: Console) -> Path | None:
    """Write the page of a failure saved at `path` beside it; None if there is none to make in this process."""
    from stalerow.simulator.campaign.failing import failing_record
    from stalerow.simulator.commands import display
    from stalerow.simulator.draw.html import page
    from stalerow.simulator.subject.trust import replay_command

    if failure.violation is None:
        return None
    again = replay_command(path, failure.subject)
    record = failing_record(failure.subject, failure.schedule, failure.violation.kind, again)
    if record is None:
        return None
    shown = path.with_suffix(".html")
    display.save(str(shown), page([record]), "page", out)
    return shown


def replay_folder(folder: Path, jobs: int, trusted: bool = False) -> list[Replayed]:
    """`replay DIR`: a line for each saved failure in it; what became of them."""
    from stalerow.simulator.campaign import failures
    from stalerow.simulator.campaign.again import replay_all
    from stalerow.simulator.subject.trust import refuse_untrusted

    paths = failures.saved(folder)
    if not paths:
        raise UsageError(f"{folder}: holds no saved failure (*.json)")
    for path in paths:
        refuse_untrusted(failures.load(path).failure.subject, str(path), trusted)
    results: list[Replayed] = []
    for replayed in replay_all(paths, jobs):
        changed = f" ({replayed.was}, now {replayed.now})" if replayed.verdict == "fails differently" else ""
        print(f"{replayed.verdict.upper()}{changed}  {replayed.path}", flush=True)
        results.append(replayed)
    failing = sum(replayed.fails for replayed in results)
    lacking = sum(replayed.verdict == "not run" for replayed in results)
    if lacking == len(results):
        raise UsageError(f"{folder}: no schedule in it has what its faults need: nothing was run")
    skipped = f"; {lacking} without what their faults need were not run" if lacking else ""
    print(f"{failing} of {len(results)} still fail{skipped}")
    return results
