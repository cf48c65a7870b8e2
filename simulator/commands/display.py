"""Options that show a run elsewhere than in the terminal: a trace for Perfetto, a page for a browser."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.draw.record import Record
    from stalerow.simulator.draw.recorder import Recorder
    from stalerow.simulator.engine.step import Step
    from stalerow.simulator.rank.operations import Operation
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.run.simulation import Observer, Simulation
    from stalerow.simulator.schedule.values import Schedule
    from stalerow.simulator.subject.subject import Subject


def add_html(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--html", metavar="FILE", default=None, help=f"write {what} to FILE: one page, no network")


def add_display(parser: argparse.ArgumentParser) -> None:
    add_html(parser, "the run")
    parser.add_argument(
        "--trace", metavar="FILE", default=None, help="write the run to FILE (.json) for Perfetto, in virtual time"
    )


def recorder(args: argparse.Namespace, schedule: Schedule) -> Recorder | None:
    """An observer that records, if a file was asked for."""
    if args.html is None and args.trace is None:
        return None
    from stalerow.simulator.draw.recorder import Recorder

    return Recorder(schedule)


def refuse(args: argparse.Namespace, why: str, *options: str) -> None:
    """Raise `UsageError` if a file was asked for where none is written; of `options`, or else of the run."""
    for option in options or ("html", "trace"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option} {getattr(args, option)}: {why}: leave one of them out")


def again(what: str, subject: Subject, schedule: Schedule, saved: bool = False) -> str:
    """The command that runs `what`, a seed or a file, again; `saved`: the file names the subject itself."""
    from stalerow.simulator.subject.trust import replay_command

    if what.isdecimal() and schedule.draw is not None:
        return schedule.draw.command(subject)
    command = replay_command(what, subject)
    return command if saved else f"{command} {subject.options()}"


def failed(
    out: Console, outcome: Outcome, schedule: Schedule, subject: Subject, record: Record | None, draw: bool = True
) -> None:
    """What was found, if anything: a line for each violation, then the picture of the first, which stays in view.

    `record` is of this run, if it was recorded. Without `draw` there is no picture.
    """
    from stalerow.simulator.draw.picture import show
    from stalerow.simulator.draw.prose import say
    from stalerow.simulator.draw.recorder import recorded

    for violation in outcome.violations:
        say(out, f"{violation.kind}: {violation.explanation}")
    if outcome.violations and draw:
        show(out, record or recorded(schedule, subject.run, str(subject)))


class Together:
    """Several observers as one."""

    def __init__(self, *observers: Observer | None) -> None:
        self._observers = [o for o in observers if o is not None]

    def __call__(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> None:
        for observer in self._observers:
            observer(simulation, actor, done)


def write(args: argparse.Namespace, record: Record, out: Console) -> None:
    """Write what was asked for, each beside and then renamed, and say so."""
    if args.html is not None:
        from stalerow.simulator.draw.html import page

        save(args.html, page([record]), "page", out)
    if args.trace is not None:
        from stalerow.simulator.draw.trace import trace

        save(args.trace, trace(record), "trace", out)


def save(path: str, data: bytes, what: str, out: Console) -> None:
    """Write a file and name it. Raises `UsageError` where it cannot be written."""
    from stalerow.simulator.files import write_beside

    try:
        write_beside(path, data)
    except OSError as error:
        why = f"{path}: cannot be written ({error.strerror})"
        raise UsageError(f"{why}: give a file in a folder you may write to") from None
    out.print(f"{what + ':':<8}{path}", markup=False, soft_wrap=True)
