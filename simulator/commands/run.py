"""Run one schedule, from a seed, a file or a recorded run; print its events and what the oracle found."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from stalerow.simulator.commands import display
from stalerow.simulator.commands.options import (
    add_device,
    add_draw,
    add_engine,
    add_fault,
    add_json,
    add_worker,
    refuse_draw_options,
    released_engines,
    schedule_source,
)
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.explain.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.conform.to_schedule import TraceCheck
    from stalerow.simulator.draw.record import Record
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.schedule.values import Schedule
    from stalerow.simulator.subject.subject import Subject


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("schedule", metavar="SEED|FILE", nargs="?", help="a seed, or a schedule file (.json, .toml)")
    parser.add_argument("--from-trace", metavar="TRACE", default=None, help="a recorded run of a released scheduler")
    parser.add_argument("--kernels", default="req-idx", metavar="SET", help="kernel set (default: %(default)s)")
    parser.add_argument("--save", metavar="FILE", default=None, help="write the schedule to FILE (.json)")
    parser.add_argument("--quiet", action="store_true", help="print the result only")
    add_json(parser, "run")
    display.add_display(parser)
    add_draw(parser)
    add_fault(parser)
    add_engine(parser)
    add_worker(parser, python=False)
    add_device(parser)


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.commands.screen.results import console
    from stalerow.simulator.commands.untested import untested
    from stalerow.simulator.draw.events import EventPrinter
    from stalerow.simulator.faults import resolve
    from stalerow.simulator.files import write_beside
    from stalerow.simulator.schedule.file import to_json
    from stalerow.simulator.schedule.values import with_profile
    from stalerow.simulator.subject.subject import Subject

    python = (args.python or "") if args.worker else ""
    faulty = tuple(args.fault)
    subject = Subject(kernels=args.kernels, device=args.device, faults=faulty, worker=args.worker, python=python)
    schedule, check = _source(args, subject)
    if subject.worker:
        return _run_worker(args, subject, schedule)
    kernels = subject.load()
    faults = resolve(args.fault)
    subject.require(schedule, str(args.from_trace or args.schedule))
    out = console()
    recorder = display.recorder(args, schedule)
    observer: Any = display.Together(None if args.quiet else EventPrinter(out), recorder)
    if check is not None:
        check.inner, observer = observer, check
    with released_engines(args.python) if args.engine == "vllm" else nullcontext() as engines:
        if engines is not None:
            schedule = with_profile(schedule, engines.profile)
        if args.save:
            write_beside(args.save, to_json(schedule))
        outcome = faults.run(schedule, kernels, observer=observer, engine=engines)
        if engines is not None:
            out.print(f"steps by the scheduler of vLLM {engines.version}", markup=False)
    record = None if recorder is None else recorder.record(outcome, str(subject), _again(args, subject, schedule))
    _print(out, outcome, schedule, subject, draw=engines is None, recorded=check is not None, record=record)
    if record is not None:
        display.write(args, record, out)
    agrees = check is None or _print_check(out, check, args.from_trace)
    _answer(args, subject, schedule, outcome, check)
    if outcome.violations or not agrees:
        return 1
    return untested(subject, outcome.faults, lambda text: out.print(f"note: {text}", markup=False, soft_wrap=True))


def _run_worker(args: argparse.Namespace, subject: Subject, schedule: Schedule) -> int:
    from stalerow.simulator.commands.screen.results import console
    from stalerow.simulator.files import write_beside
    from stalerow.simulator.schedule.file import to_json
    from stalerow.simulator.worker.served import served

    subject.check()
    if args.from_trace is not None or args.engine != "own":
        raise UsageError("--worker brings its own scheduler: leave out --from-trace and --engine")
    schedule = served(schedule)
    if args.save:
        write_beside(args.save, to_json(schedule))
    out, recorder = console(), display.recorder(args, schedule)
    outcome = subject.run(schedule, recorder)
    record = None if recorder is None else recorder.record(outcome, str(subject), _again(args, subject, schedule))
    _print(out, outcome, schedule, subject, draw=True, recorded=False, record=record)
    if record is not None:
        display.write(args, record, out)
    _answer(args, subject, schedule, outcome, None)
    return 1 if outcome.violations else 0


def _answer(
    args: argparse.Namespace, subject: Subject, schedule: Schedule, outcome: Outcome, check: TraceCheck | None
) -> None:
    if args.json is None:
        return
    from stalerow.simulator.commands import answers

    made = answers.RunAnswer(
        subject=subject,
        draw=schedule.draw,
        violations=tuple(outcome.violations),
        marks=outcome.marks,
        steps=outcome.steps,
        decisions=outcome.decisions,
        stopped=outcome.stopped,
        digest=outcome.digest,
        memory=outcome.memory,
        difference=None if check is None or check.difference is None else str(check.difference),
    )
    answers.write(args, made)


def _source(args: argparse.Namespace, subject: Subject) -> tuple[Schedule, TraceCheck | None]:
    if args.from_trace is None:
        if args.schedule is None:
            raise UsageError("nothing to run: give a seed, a schedule file, or --from-trace TRACE")
        return schedule_source(args, args.schedule, subject), None
    from stalerow.simulator.conform.to_schedule import TraceCheck, read_trace, to_schedule

    if args.schedule is not None:
        raise UsageError(f"--from-trace says pipeline and requests itself: leave {args.schedule} out")
    refuse_draw_options(args, "--from-trace says pipeline and requests itself")
    trace = read_trace(args.from_trace)
    return to_schedule(trace, args.from_trace), TraceCheck(trace)


def _again(args: argparse.Namespace, subject: Subject, schedule: Schedule) -> str:
    """The command that runs it again; "" for what no command says."""
    if args.from_trace is not None or args.engine != "own":
        return ""
    return display.again(args.schedule, subject, schedule)


def _print(
    out: Console,
    outcome: Outcome,
    schedule: Schedule,
    subject: Subject,
    draw: bool,
    recorded: bool,
    record: Record | None,
) -> None:
    from stalerow.simulator.draw.prose import say

    display.failed(out, outcome, schedule, subject, record, draw)
    marks = ", ".join(f"{name} {count}" for name, count in sorted(outcome.marks.items())) or "none"
    # A recording has as many steps as it has: there is nothing early about its end.
    early = outcome.stopped if not recorded or outcome.stopped != "step limit" else ""
    ended = f", stopped early: {early}" if early else ""
    say(out, f"marks: {marks}")
    verdict = counted(len(outcome.violations), "violation") if outcome.violations else "clean"
    result = f"{verdict}: {subject}, {outcome.steps} steps, digest {outcome.digest}{ended}"
    say(out, result)


def _print_check(out: Console, check: TraceCheck, name: str) -> bool:
    check.finish()
    if check.difference is not None:
        out.print(f"{name} differs: {check.difference}", markup=False, soft_wrap=True)
        return False
    out.print(
        f"every step as recorded in {name}: {check.steps} steps, {check.values} values, block ids included",
        markup=False,
        soft_wrap=True,
    )
    return True
