"""Compare the scheduler with a released engine's: recorded runs field by field, or random workloads live.

Recorded runs need nothing but their files. With --live an installed vLLM runs random workloads in a child process; what
it shows is shrunk, printed and saved with the command that repeats it. With --worker it is our ranks that are
compared with a release's own worker (`conform_worker`).
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stalerow.simulator.commands.conformed import FOLDER, RUNS, show, total
from stalerow.simulator.commands.options import add_json, add_worker, positive, seed_list
from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.conform import Conformance, LiveScheduler
    from stalerow.simulator.conform.workloads import Task


Finding = tuple[str, str]


def configure(parser: argparse.ArgumentParser) -> None:
    from stalerow.simulator.engine import profile_names

    parser.add_argument(
        "traces",
        metavar="TRACE",
        nargs="*",
        help="recorded runs, or folders of them; with --live or --worker, what they saved",
    )
    parser.add_argument(
        "--profile", choices=profile_names(), default=None, help="rules to compare (default: those of the release)"
    )
    parser.add_argument("--live", action="store_true", help="compare random workloads with an installed vLLM")
    add_worker(parser, python=False)
    parser.add_argument("--python", metavar="PATH", default=None, help="Python of an environment that has vLLM")
    parser.add_argument("--runs", type=positive, default=None, metavar="N", help=f"workloads (default: {RUNS})")
    parser.add_argument("--seeds", type=seed_list, default=None, metavar="SEEDS", help="A:B, 3,7,9:40 or a file")
    parser.add_argument("--save", metavar="FILE", default=None, help=f"where a difference goes (default: in {FOLDER})")
    add_json(parser, "conform")


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.commands.screen.results import console

    if args.worker:
        from stalerow.simulator.commands import conform_worker

        if args.live or args.profile:
            raise UsageError("--worker brings its own scheduler and rules: leave out --live and --profile")
        return conform_worker.execute(args, console())
    if args.live:
        return _live(args, console())
    for name in ("python", "runs", "seeds", "save"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} belongs to --live or --worker: leave it out, or add one of them")
    if not args.traces:
        raise UsageError("nothing to compare with: give recorded runs (files or folders), or --live --python PATH")
    return _recorded(args, console())


def _recorded(args: argparse.Namespace, out: Console) -> int:
    from stalerow.simulator.conform import conform_trace

    files = [file for name in args.traces for file in _files(Path(name))]
    results = []
    for file in files:
        try:
            results.append(conform_trace(file, args.profile))
        except ValueError as error:
            raise UsageError(str(error)) from None
        show(out, results[-1], max(len(f.name) for f in files) - len(".json"))
    return total(args, out, results)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted([*path.glob("*.json"), *path.glob("*.json.gz")])
        if not found:
            raise UsageError(f"{path}: no recorded run in this folder: expected files named *.json or *.json.gz")
        return found
    if not path.is_file():
        raise UsageError(f"{path}: no such file or folder: give recorded runs of a scheduler")
    return [path]


def _live(args: argparse.Namespace, out: Console) -> int:
    from stalerow.simulator.conform import LiveError, LiveScheduler
    from stalerow.simulator.conform.child import last_words
    from stalerow.simulator.engine import profile

    if args.python is None:
        raise UsageError("--live needs --python PATH: the Python of an environment that has vLLM")
    tasks = _tasks(args)
    try:
        with LiveScheduler(args.python) as scheduler:
            rules = profile(args.profile or scheduler.version).name
            return _compare(args, out, scheduler, tasks, rules)
    except LiveError as error:
        raise UsageError(f"{last_words(str(error))} (--python {args.python})") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def _tasks(args: argparse.Namespace) -> list[tuple[str, Task | int]]:
    """(name, workload or seed) of everything to compare."""
    if args.traces:
        if args.runs or args.seeds:
            raise UsageError("saved workloads and --runs or --seeds: give one or the other")
        return [(name, _saved(Path(name))) for name in args.traces]
    if args.runs and args.seeds:
        raise UsageError("--runs N means --seeds 0:N: give one or the other")
    return [(f"seed {seed}", seed) for seed in args.seeds or range(args.runs or RUNS)]


def _saved(path: Path) -> Task:
    import msgspec

    from stalerow.simulator.files import read_bounded

    try:
        data = msgspec.json.decode(read_bounded(path), type=dict[str, Any])
        config, workload = data["config"], data["workload"]
    except (OSError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise UsageError(f"{path}: not a saved workload ({error}): give a file that 'conform --live' wrote") from None
    return config, workload


def _compare(
    args: argparse.Namespace,
    out: Console,
    scheduler: LiveScheduler,
    tasks: Sequence[tuple[str, Task | int]],
    rules: str,
) -> int:
    from stalerow.simulator.commands.screen.progress import progress
    from stalerow.simulator.conform.live import live_agreement
    from stalerow.simulator.conform.workloads import random_task

    results: list[Conformance] = []
    begun, interrupted = time.monotonic(), False
    title = f"{len(tasks)} workload{'s' if len(tasks) > 1 else ''} against vLLM {scheduler.version}, rules of {rules}"
    try:
        with progress(title, len(tasks)) as advance:
            for name, item in tasks:
                task = random_task(item) if isinstance(item, int) else item
                results.append(live_agreement(scheduler, name, task, rules))
                advance()
                if results[-1].difference is not None:
                    break
    except KeyboardInterrupt:
        interrupted = True
    seconds = max(time.monotonic() - begun, 1e-9)
    findings: dict[Finding, list[Conformance]] = {}
    for result in results:
        if not result.agrees:
            findings.setdefault(_finding(result), []).append(result)
    saved: set[Path] = set()
    for alike in sorted(findings.values(), key=lambda alike: alike[0].difference is not None):
        _show(out, alike)
        item = dict(tasks)[alike[0].name]
        # The child hears Ctrl-C as well, and is gone.
        if (isinstance(item, int) or args.save) and not interrupted:
            task = random_task(item) if isinstance(item, int) else item
            saved.add(_small(args, out, scheduler, alike[0], task, rules, saved))
    code = total(args, out, results)
    if interrupted:
        out.print(f"interrupted: that is of {len(results)} of {len(tasks)} workloads", markup=False)
        return 130
    out.print(f"{seconds:.0f} s, {len(results) / seconds:.1f} workloads a second", markup=False)
    return code


def _small(
    args: argparse.Namespace,
    out: Console,
    scheduler: LiveScheduler,
    result: Conformance,
    task: Task,
    rules: str,
    taken: set[Path],
) -> Path:
    """Shrink a finding, print it, and save it, beside files that are `taken`, with the command that repeats it."""
    import msgspec

    from stalerow.simulator.conform.live import LiveError, live_agreement
    from stalerow.simulator.conform.reduce import reduce
    from stalerow.simulator.files import write_beside

    def alike(candidate: Task) -> bool:
        try:
            seen = live_agreement(scheduler, "", candidate, rules)
        except (ValueError, LiveError):  # our engine, or theirs, refuses the options
            return False
        return not seen.agrees and _finding(seen) == _finding(result)

    out.print("shrinking", markup=False)
    small, tried = reduce(task, alike)
    again = live_agreement(scheduler, result.name, small, rules)
    path = Path(args.save or FOLDER / f"{result.name.replace(' ', '-').replace('/', '-')}.json")
    if path in taken:
        path = path.with_stem(f"{path.stem}-{len(taken) + 1}")
    command = f"stalerow conform --live --python {shlex.quote(args.python)} --profile {rules} {shlex.quote(str(path))}"
    saved = {
        "from": result.name,
        "vllm": scheduler.version,
        "profile": rules,
        "difference": again.difference,
        "raised": again.raised,
        "held": again.held,
        "command": command,
        "config": small[0],
        "workload": small[1],
    }
    write_beside(path, msgspec.json.format(msgspec.json.encode(saved), indent=2) + b"\n")
    words = again.raised or again.difference or again.held
    out.print(f"the smallest of {tried} workloads tried: {words}", markup=False, soft_wrap=True)
    for request in small[1]["requests"]:
        words = ", ".join(f"{k} {v}" for k, v in request.items() if k not in ("id", "stop_token_ids"))
        out.print(f"  request {request['id']}: {words}", markup=False, soft_wrap=True)
    for abort in small[1]["aborts"]:
        out.print(f"  abort {abort['id']}: {abort.get('phase', 'pre_schedule')} {abort['step']}", markup=False)
    out.print(f"saved as {path}; repeat it with\n  {command}", markup=False, soft_wrap=True)
    return path


def _show(out: Console, found: Sequence[Conformance]) -> None:
    """Workloads that show one finding: said once where the engine raised, else by name."""
    raised = found[0].raised is not None
    for result in found[:1] if raised else found:
        show(out, result, len(result.name))
    if raised and len(found) > 1:
        out.print(f"  {len(found)} workloads raise there", markup=False)


def _finding(result: Conformance) -> Finding:
    """What makes two findings one: where the engine raised, that it differs, or in which way it held too much."""
    if result.raised is not None:
        return "raised", result.place
    if result.difference is not None:
        return "differs", ""
    return "held", (result.held or "").partition(":")[0]
