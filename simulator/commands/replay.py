"""Run a saved failure, a schedule file or a seed again, and say whether it fails in the same way."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stalerow.simulator.commands import display
from stalerow.simulator.commands.options import (
    add_device,
    add_draw,
    add_json,
    add_trust,
    add_worker,
    draw_of,
    number_or_error,
    positive,
    refuse_draw_options,
    schedule_source,
)
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.explain.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.campaign.again import Replayed, Verdict
    from stalerow.simulator.campaign.failures import Loaded, Origin
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.schedule.values import Schedule
    from stalerow.simulator.subject.subject import Subject


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="SEED|FILE|DIR", help="a seed, a saved failure, a schedule file, or a folder of failures"
    )
    parser.add_argument(
        "--kernels", default=None, metavar="SET", help="kernel set (default: the failure's own, else req-idx)"
    )
    parser.add_argument("--fault", action="append", default=None, metavar="NAME", help="put a fault in (repeatable)")
    parser.add_argument(
        "--until",
        type=_until,
        default=None,
        metavar="STEP|violation",
        help="stop once every rank has run STEP, or at the first violation; show the state",
    )
    parser.add_argument(
        "--step",
        action="store_true",
        help="event by event, on and back, with its keys shown (where nobody can be asked: print all)",
    )
    add_json(parser, "replay")
    display.add_display(parser)
    add_draw(parser)
    add_worker(parser)
    add_trust(parser)
    add_device(parser)


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.commands.screen.results import console

    if Path(args.what).is_dir():
        return _folder(args)
    out = console()
    loaded = _loaded(args, out)
    subject = _subject(args, loaded)
    if loaded is not None:
        from stalerow.simulator.subject.trust import refuse_untrusted

        # What the command line names instead, its user has chosen.
        chosen: dict[str, Any] = {"kernels": "req-idx"} if args.kernels else {}
        if args.fault is not None:
            chosen["faults"] = ()
        refuse_untrusted(msgspec.structs.replace(loaded.failure.subject, **chosen), args.what, args.trust)
    schedule = loaded.failure.schedule if loaded else schedule_source(args, args.what, subject)
    subject.require(schedule, args.what)
    if args.until is not None or args.step:
        display.refuse(args, "--step and --until show the run in the terminal", "html", "trace", "json")
        from stalerow.simulator.draw.walk import asker, walk

        walk(subject.run, schedule, out, until=args.until, ask=asker() if args.step else None, events=args.step)
        return 0
    if loaded is not None and loaded.failure.violation is None:
        replayed = _replay_without_violation(args.what, subject, schedule, loaded, out)
        _answer(args, [replayed])
        return 1 if replayed.now == "crash" else 3 if replayed.fails else 0
    recorder = display.recorder(args, schedule)
    outcome = subject.run(schedule, recorder)
    again = display.again(args.what, subject, schedule, loaded is not None and loaded.failure.subject == subject)
    record = None if recorder is None else recorder.record(outcome, str(subject), again)
    display.failed(out, outcome, schedule, subject, record)
    replayed = _replay(args.what, subject, loaded, out, _remembered(args, subject), outcome)
    _answer(args, [replayed])
    if record is not None:
        display.write(args, record, out)
    return int(replayed.fails)


def _answer(args: argparse.Namespace, replays: Sequence[Replayed]) -> None:
    if args.json:
        from stalerow.simulator.commands import answers

        answers.write(args, answers.ReplayAnswer(replays=tuple(replays)))


def _folder(args: argparse.Namespace) -> int:
    """Every saved failure of a folder, each as it was saved."""
    from stalerow.simulator.commands.failures import replay_folder
    from stalerow.simulator.commands.options import job_count

    refuse_draw_options(args, f"{args.what} is a folder of failures, which say all of it themselves")
    if args.kernels or args.fault is not None or args.until is not None or args.step:
        raise UsageError(f"{args.what} is a folder: --kernels, --fault, --until and --step apply to one of its files")
    replays = replay_folder(Path(args.what), job_count(None), args.trust)
    _answer(args, replays)
    return int(any(replayed.fails for replayed in replays))


def _until(text: str) -> int | str:
    """A step or the word "violation", for argparse."""
    return text if text == "violation" else positive(text)


def _loaded(args: argparse.Namespace, out: Console) -> Loaded | None:
    """The saved failure, if it is one that is to be replayed."""
    from stalerow.simulator.campaign import failures

    if re.fullmatch(r"[0-9]+", args.what) or not failures.is_failure(args.what):
        return None
    refuse_draw_options(args, f"{args.what} is a saved failure and says all of it itself")
    loaded = failures.load(args.what)
    for problem in loaded.problems:
        out.print(f"no longer fits: {problem}", markup=False, soft_wrap=True)
    return loaded


def _subject(args: argparse.Namespace, loaded: Loaded | None) -> Subject:
    from stalerow.simulator.subject.subject import Subject

    saved = loaded.failure.subject if loaded else Subject()
    return Subject(
        kernels=args.kernels or saved.kernels,
        device=args.device if args.device != "auto" else saved.device,
        faults=tuple(args.fault) if args.fault is not None else saved.faults,
        worker="" if args.kernels else args.worker or saved.worker,
        python=args.python or saved.python,
    )


def _remembered(args: argparse.Namespace, subject: Subject) -> Origin | None:
    """What a saved failure says about the seed's run before shrinking, if there is one here."""
    from stalerow.simulator.campaign import failures

    if not re.fullmatch(r"[0-9]+", args.what):
        return None
    command = draw_of(args, number_or_error(args.what), subject).command(subject)
    for path in failures.saved():
        try:
            origin = failures.load(path).failure.origin
        except UsageError:  # somebody else's file, or a damaged one
            continue
        if origin.command == command and origin.digest:
            return origin
    return None


def _replay(
    what: str,
    subject: Subject,
    loaded: Loaded | None,
    out: Console,
    remembered: Origin | None,
    outcome: Outcome,
) -> Replayed:
    from stalerow.simulator.campaign.again import Replayed
    from stalerow.simulator.draw.prose import say

    if loaded is not None:
        for line in _comparison(loaded, subject, outcome):
            say(out, line)
    if remembered is not None:
        say(out, _again(remembered, outcome))
    verdict = counted(len(outcome.violations), "violation") if outcome.violations else "clean"
    stopped = f", stopped early: {outcome.stopped}" if outcome.stopped else ""
    say(out, f"{verdict}: {subject}, {outcome.steps} steps, digest {outcome.digest}{stopped}")
    now = outcome.violations[0].kind if outcome.violations else ""
    was = loaded.failure.kind if loaded else remembered.kind if remembered else ""
    verdict = _verdict(loaded, remembered, outcome)
    return Replayed(what, was, now, verdict, tuple(outcome.violations), outcome.digest)


def _verdict(loaded: Loaded | None, remembered: Origin | None, outcome: Outcome) -> Verdict:
    if loaded is None and remembered is None:
        return "fails" if outcome.violations else "clean"
    if not outcome.violations:
        return "no longer fails"
    if loaded is not None:
        same = all(was == is_ for _, was, is_ in _points(loaded, outcome))
    else:
        assert remembered is not None
        same = _unchanged(remembered, outcome)
    return "fails in the same way" if same else "fails differently"


def _replay_without_violation(
    what: str, subject: Subject, schedule: Schedule, loaded: Loaded, out: Console
) -> Replayed:
    """A crash, a determinism breach or an internal error: run twice, in processes that may die."""
    from stalerow.simulator.campaign.again import Replayed
    from stalerow.simulator.campaign.trials import digest_of
    from stalerow.simulator.campaign.workers import Workers

    with Workers(1, digest_of) as workers:
        first, second = workers.map(iter([(subject, schedule)] * 2))
    if isinstance(first.error, UsageError):
        raise first.error
    now = f"the worker process {first.died}" if first.died else str(first.error or "")
    kind = loaded.failure.kind
    saved = f"saved as: {kind} ({loaded.failure.note.splitlines()[0]})"
    if first.died or first.error:
        out.print(f"{saved}\nFAILS AGAIN: {now}\n{first.trace}", markup=False, soft_wrap=True)
        return Replayed(what, kind, "crash" if first.died else "internal error", "fails in the same way")
    if first.value != second.value:
        told = f"FAILS IN THE SAME WAY: two runs gave digests {first.value} and {second.value}"
        out.print(f"{saved}\n{told}", markup=False, soft_wrap=True)
        return Replayed(what, kind, "determinism breach", "fails in the same way")
    out.print(f"{saved}\nNO LONGER FAILS: {subject} ran to the end twice, digest {first.value}", markup=False)
    return Replayed(what, kind, "", "no longer fails", digest=first.value)


def _comparison(loaded: Loaded, subject: Subject, outcome: Outcome) -> list[str]:
    """Whether it failed as it did when it was saved, point by point."""
    from stalerow.simulator.campaign.failures import versions

    failure, then = loaded.failure, loaded.failure.violation
    others = [] if subject == failure.subject else [f"(saved with {failure.subject}, run with {subject})"]
    assert then is not None
    if not outcome.violations:
        return [f"NO LONGER FAILS: it was {failure.kind} in {then.launch} of step {then.step}", *others]
    points = _points(loaded, outcome)
    different = [f"  {name}: was {was}, is {is_}" for name, was, is_ in points if was != is_]
    if not different:
        return ["FAILS IN THE SAME WAY: kind, launch, blocks and digest are equal", *others]
    changed = [f"  {k}: was {v}, is {versions().get(k)}" for k, v in failure.versions.items() if versions().get(k) != v]
    equal = ", ".join(name for name, was, is_ in points if was == is_) or "nothing"
    return [f"FAILS DIFFERENTLY: {equal} equal", *different, *(["versions:", *changed] if changed else []), *others]


def _points(loaded: Loaded, outcome: Outcome) -> list[tuple[str, str | None, str | None]]:
    """What a saved violation and the first of now are compared in: (name, was, is)."""
    failure, then, now = loaded.failure, loaded.failure.violation, outcome.violations[0]
    assert then is not None
    return [
        ("kind", then.kind, now.kind),
        ("launch", _launch(then), _launch(now)),
        ("blocks", f"{then.source_block} -> {then.target_block}", f"{now.source_block} -> {now.target_block}"),
        ("digest", failure.digest, outcome.digest),
    ]


def _unchanged(origin: Origin, outcome: Outcome) -> bool:
    """Whether a seed's run fails as it did when it was saved."""
    now = outcome.violations[0]
    return (now.kind, now.launch, outcome.digest) == (origin.kind, origin.launch, origin.digest)


def _again(origin: Origin, outcome: Outcome) -> str:
    now = outcome.violations[0] if outcome.violations else None
    if now is None:
        return f"NO LONGER FAILS: this seed was saved as {origin.kind} in {origin.launch}"
    if _unchanged(origin, outcome):
        return "FAILS IN THE SAME WAY as when this seed was saved: kind, launch and digest are equal"
    was = f"{origin.kind} in {origin.launch}, digest {origin.digest}"
    return f"FAILS DIFFERENTLY: was {was}; is {now.kind} in {now.launch}, digest {outcome.digest}"


def _launch(violation) -> str:
    late = "deferred " if violation.deferred else ""
    return f"{late}{violation.launch} of step {violation.step} during step {violation.during} {violation.place}"
