"""The catalogue of public bugs: list them, show one, run them with and without their faults, add one of your own."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from stalerow.scenarios.loader import catalogue, load
from stalerow.scenarios.scenario import Expectation, Measured, Result, Scenario
from stalerow.scenarios.writer import to_toml
from stalerow.simulator.commands.options import add_json, add_trust
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.values import Schedule

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = commands.add_parser("list", help="names and titles")
    show = commands.add_parser("show", help="one scenario: its report, its faults, its schedule")
    show.add_argument("name")
    run = commands.add_parser("run", help="run with the faults and without; exit code 1 if one is not as expected")
    for command in (show, run):
        add_trust(command)
    run.add_argument("names", nargs="*", metavar="NAME", help="scenarios, or files (default: the whole catalogue)")
    add = commands.add_parser("add", help="make a scenario of a saved failure")
    add.add_argument("file", type=Path, help="what fuzz or the pytest plugin saved")
    add_trust(add)
    add.add_argument("--name", help="the scenario's name (default: the file's)")
    add.add_argument("--folder", type=Path, default=Path("scenarios"), help="where to write it (default: %(default)s)")
    for command in (listing, show, run, add):
        add_json(command, "scenarios", instead=True)


def execute(args: argparse.Namespace) -> int:
    from rich.console import Console

    from stalerow.simulator.commands import answers

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    if args.action == "add":
        return _add(console, args)
    names = [args.name] if args.action == "show" else args.names if args.action == "run" else []
    chosen = [_named(name, args.trust) for name in names] or list(catalogue().values())
    if args.action == "run":
        results = _ran(console, chosen, console.is_terminal and args.json != answers.STDOUT)
    else:
        results = [Result(scenario, None, None) for scenario in chosen]
    if args.json:
        made = tuple(_answered(result, args.action == "show") for result in results)
        answers.write(args, ScenariosAnswer(scenarios=made))
    if args.json != answers.STDOUT:
        if args.action == "list":
            _list(console, chosen)
        elif args.action == "show":
            _show(console, *chosen)
        else:
            _tell(console, results)
    return int(args.action == "run" and not all(result.ok for result in results))


class ScenarioAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario. `found`, `clean` and `violation` (the first with the faults) are of a run, None without one."""

    name: str
    id: str
    title: str
    status: str
    reports: tuple[str, ...]
    faults: tuple[str, ...]
    kernels: str
    measured: Measured | None
    schedule: Schedule | None = None
    found: bool | None = None
    clean: bool | None = None
    violation: Violation | None = None


class ScenariosAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Scenarios of the catalogue or of files; those of `show` and `add` with their schedules."""

    schema: Literal["stalerow.scenarios/1"] = "stalerow.scenarios/1"
    scenarios: tuple[ScenarioAnswer, ...]


def _answered(result: Result, whole: bool) -> ScenarioAnswer:
    scenario, ran = result.scenario, result.faulty is not None
    return ScenarioAnswer(
        name=scenario.name,
        id=scenario.id,
        title=scenario.title,
        status=scenario.status,
        reports=scenario.reports,
        faults=scenario.faults,
        kernels=scenario.kernels,
        measured=scenario.measured,
        schedule=scenario.schedule if whole else None,
        found=result.found if ran else None,
        clean=result.clean if ran else None,
        violation=result.first,
    )


def _named(name: str, trust: bool) -> Scenario:
    """A scenario by name, or from a file."""
    import difflib

    from stalerow.simulator.subject.subject import Subject
    from stalerow.simulator.subject.trust import refuse_untrusted

    if name.lower().endswith(".toml"):
        scenario = load(name)
        refuse_untrusted(Subject(kernels=scenario.kernels, faults=scenario.faults), name, trust)
        return scenario
    known = catalogue()
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else "'stalerow scenarios list' names them"
        raise UsageError(f"unknown scenario {name!r}: {hint} (or give a .toml file)")
    return known[name]


def _list(console: Console, chosen: Iterable[Scenario]) -> None:
    from rich.table import Table

    table = Table("scenario", "bug", "title", box=None, pad_edge=False)
    for scenario in chosen:
        note = "" if scenario.status == "modelled" else " (not modelled)"
        table.add_row(scenario.name, scenario.id, scenario.title + note)
    console.print(table)


def _show(console: Console, scenario: Scenario) -> None:
    console.print(f"[bold]{scenario.name}[/]: {scenario.title}\n")
    for paragraph in scenario.text.strip().split("\n\n"):
        console.print(textwrap.fill(" ".join(paragraph.split()), 100), markup=False)
        console.print()
    for fault in scenario.resolve().faults:
        console.print(f"fault {fault.name}: {fault.summary}", markup=False)
    for link in scenario.links:
        console.print(f"report {link}", markup=False)
    _, _, schedule = to_toml(scenario).partition("\n[expect]")
    if schedule:
        console.print(f"\n[expect]{schedule}", markup=False)


def _ran(console: Console, chosen: Sequence[Scenario], shown: bool) -> list[Result]:
    from rich.progress import track

    return [scenario.run() for scenario in track(chosen, "running", console=console, transient=True, disable=not shown)]


def _tell(console: Console, results: Sequence[Result]) -> None:
    console.print(_table(results))
    bad = [result for result in results if not result.ok]
    for result in bad:
        console.print(f"{result.scenario.name}: {_complaint(result)}", markup=False)
    modelled = sum(r.scenario.status == "modelled" for r in results)
    console.print(
        f"{modelled - len(bad)} of {modelled} as the reports say; found: with the fault, clean: without it, schedules: "
        "what plain fuzzing needs to find it (median over starting seeds), size: after shrinking"
    )


def _table(results: Iterable[Result]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("bug", "scenario", "found", "clean", "violation", "schedules", "size"):
        table.add_column(name, no_wrap=name in ("bug", "found", "clean"))
    for result in sorted(results, key=lambda r: (r.scenario.id, r.scenario.name)):
        table.add_row(*_cells(result))
    return table


def _cells(result: Result) -> tuple[str, ...]:
    scenario, first, measured = result.scenario, result.first, result.scenario.measured
    if scenario.status == "not modelled":
        return scenario.id, scenario.name, "not modelled", "", "", "", ""
    return (
        scenario.id,
        scenario.name,
        _yes(result.found),
        _yes(result.clean),
        f"{first.kind} ({first.launch})" if first else "none",
        f"{measured.median} (worst {measured.worst})" if measured else "",
        _size(result),
    )


def _yes(value: bool) -> str:
    return "[green]yes[/]" if value else "[red]NO[/]"


def _size(result: Result) -> str:
    schedule = result.scenario.schedule
    if schedule is None or result.first is None:
        return ""
    requests = len(schedule.requests)
    shape = f"pp {schedule.pipeline.pp}, K {schedule.pipeline.drafts}"
    return f"{requests} request{'s' * (requests > 1)}, step {result.first.during}, {shape}"


def _complaint(result: Result) -> str:
    if not result.found:
        expect, first = result.scenario.expect, result.first
        wanted = f"{' or '.join(expect.kinds)} at {expect.launch}" if expect else ""
        got = f"{first.kind} at {first.launch}: {first.explanation}" if first else "no violation"
        return f"expected {wanted}, got {got}"
    assert result.healthy is not None
    return f"not clean without its faults: {result.healthy.violations[0].explanation}"


def _add(console: Console, args: argparse.Namespace) -> int:
    from stalerow.simulator.campaign import failures
    from stalerow.simulator.commands import answers
    from stalerow.simulator.files import write_beside
    from stalerow.simulator.subject.trust import refuse_untrusted

    failure = failures.load(args.file).failure
    refuse_untrusted(failure.subject, str(args.file), args.trust)
    name = args.name or re.sub(r"[^a-z0-9]+", "-", args.file.stem.lower())[:100].strip("-")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,99}", name):
        raise UsageError(f"--name {name[:100]!r}: give lower-case letters, digits, '-', '_' and '.', nothing else")
    path = args.folder / f"{name}.toml"
    if path.exists():
        raise UsageError(f"{path}: exists already: choose another --name, or remove it first")
    if failure.violation is None:
        raise UsageError(f"{args.file}: a crash has no violation to expect: run it with a reference kernel set first")
    scenario = Scenario(
        name=name,
        id=name,
        title=f"{failure.kind} at {failure.violation.launch}",
        text=f"{failure.violation.explanation}.\n",
        faults=failure.subject.faults,
        kernels=failure.subject.kernels,
        expect=Expectation(kinds=(failure.kind,), launch=failure.violation.launch),
        schedule=failure.schedule,
    )
    result = scenario.run()
    if not result.found:
        raise UsageError(f"{args.file}: does not fail in the same way any more: {_complaint(result)}")
    if not result.clean:
        raise UsageError(
            f"{args.file}: not clean without its faults either, so it would never pass as a scenario: "
            f"{result.healthy.violations[0].explanation if result.healthy else ''}; report it as a finding instead"
        )
    write_beside(path, to_toml(scenario).encode())
    if args.json:
        answers.write(args, ScenariosAnswer(scenarios=(_answered(result, True),)))
    if args.json != answers.STDOUT:
        console.print(f"wrote {path}; give it a title, a text and its reports", markup=False)
    return 0
