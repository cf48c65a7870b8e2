"""The pytest plugin: kernels and seeds as fixtures, failing schedules saved and named, statistics in the summary.

Loaded in every pytest run of an environment that has stalerow, so it imports nothing of it before a test does. Under
pytest-xdist, workers save and report; the controller sums up. Hypothesis' own plugin goes on as ever beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stalerow.simulator.testing import options

if TYPE_CHECKING:
    from stalerow.simulator.subject.subject import Subject
    from stalerow.simulator.testing.isolation import IsolationError

STATE = pytest.StashKey["State"]()


class State:
    """One process's part in a session. `failures` are the properties of failing tests, in the order of reports."""

    def __init__(self) -> None:
        self.merged: list[dict[str, Any]] = []
        self.failures: list[dict[str, str]] = []
        self.shrunk: set[tuple[str, ...]] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STATE] = State()
    options.check(config)
    chosen = config.getoption("--stalerow-settings")
    if chosen:
        from stalerow.simulator.schedule.strategies import load_settings

        try:
            load_settings(chosen)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def stalerow_device(pytestconfig: pytest.Config) -> str:
    """The device named by --stalerow-device."""
    return str(pytestconfig.getoption("--stalerow-device"))


@pytest.fixture(scope="session")
def stalerow_kernels(pytestconfig: pytest.Config) -> Subject:
    """The kernel set named by --stalerow-kernels, with the faults asked for; pass it to `assert_isolated`."""
    return options.subject(pytestconfig)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`stalerow_schedule` is each of the seeds' schedules in turn."""
    if "stalerow_schedule" in metafunc.fixturenames:
        from stalerow.simulator.schedule.generate import from_draw

        draws = options.draws(metafunc.config)
        schedules = [from_draw(draw) for draw in draws]
        metafunc.parametrize("stalerow_schedule", schedules, ids=[f"seed{draw.seed}" for draw in draws])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = _statistics()
    try:
        yield
    finally:
        after = _statistics()
        ran = after["schedules"] - before["schedules"]
        if ran:
            marks = [m for m in after["marks"] if after["marks"][m] > before["marks"].get(m, 0)]
            item.user_properties += [("stalerow.schedules", str(ran)), ("stalerow.marks", ", ".join(sorted(marks)))]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    if call.excinfo is not None:
        for error in _isolation_errors(call.excinfo.value):
            properties, text = _save(item, error)
            item.user_properties += [(f"stalerow.{k}", v) for k, v in properties.items()]
            item.add_report_section(call.when, "stalerow", text)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """On the controller, or without xdist: remember failures for the summary."""
    config = _CONFIG.get("controller")
    if config is not None and report.when == "call" and report.failed:
        known = dict(report.user_properties)
        if "stalerow.file" in known:
            config.stash[STATE].failures.append({k: str(v) for k, v in known.items()})


_CONFIG: dict[str, pytest.Config] = {}


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        _CONFIG["controller"] = session.config


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["stalerow"] = _statistics()
        return
    total = _total(config)
    if config.getoption("--stalerow-require-marks") and total.schedules and _missed(total.marks):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    if _untested(config, total)[1]:
        session.exitstatus = session.exitstatus or pytest.ExitCode.USAGE_ERROR


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """An xdist worker has ended: take over its sums."""
    sent = getattr(node, "workeroutput", {}).get("stalerow")
    if sent:
        node.config.stash[STATE].merged.append(sent)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    total = _total(config)
    if not (total.schedules or total.skipped):
        return
    failures = config.stash[STATE].failures
    out = terminalreporter
    out.section("stalerow")
    kinds = ", ".join(f"{k} {n}" for k, n in total.kinds.most_common()) or "none"
    kernels = ", ".join(f"{k} {n}" if len(total.kernels) > 1 else k for k, n in total.kernels.most_common())
    out.write_line(f"{total.schedules} schedules with {kernels}; violating: {kinds}")
    out.write_line("marks seen (schedules): " + ", ".join(f"{m} {n}" for m, n in sorted(total.marks.items())))
    missed = _missed(total.marks)
    if missed:
        out.write_line(f"marks not seen: {', '.join(missed)}")
    if total.skipped:
        out.write_line(f"skipped: {total.skipped} without what their faults need")
    notes, nothing = _untested(config, total)
    for note in notes:
        out.write_line(f"note: {note}")
    if nothing:
        out.write_line("nothing was tested: run other schedules, or correct the fault")
    for failure in failures:
        out.write_line(f"{failure['stalerow.kind']}: {failure['stalerow.file']}")
        out.write_line(f"    {failure['stalerow.command']}")
    _annotate(total, failures)


def _annotate(total: Any, failures: Sequence[dict[str, str]]) -> None:
    from stalerow.simulator.commands.ci import Annotations, Entry

    entries: dict[tuple[str, str], Entry] = {}
    for failure in failures:
        kind, text = failure["stalerow.kind"], failure["stalerow.explanation"]
        entry = Entry(kind, text, failure["stalerow.command"], failure["stalerow.file"])
        entries.setdefault((kind, failure["stalerow.launch"]), entry)
    head = f"stalerow properties: {total.schedules} schedules"
    Annotations.from_environment().report(head, list(entries.values()), total.marks, _missed(total.marks))


def _statistics() -> dict[str, Any]:
    """This process's sums; nothing if no test has used stalerow."""
    isolation = sys.modules.get("stalerow.simulator.testing.isolation")
    if isolation is None:
        return {"schedules": 0, "skipped": 0, "uses": [], "kernels": {}, "marks": {}, "kinds": {}}
    sums: dict[str, Any] = isolation.STATISTICS.to_builtins()
    return sums


def _total(config: pytest.Config) -> Any:
    from stalerow.simulator.testing.isolation import Statistics

    total = Statistics()
    for part in (_statistics(), *config.stash[STATE].merged):
        total.merge(part)
    return total


def _untested(config: pytest.Config, total: Any) -> tuple[list[str], bool]:
    """What the faults of --stalerow-fault were not asked, in words, and whether that is everything."""
    faults = tuple(config.getoption("--stalerow-fault"))
    if faults not in total.uses:
        return [], False
    from stalerow.simulator.faults import resolve

    return resolve(faults).untested(total.uses[faults])


def _missed(marks: Any) -> list[str]:
    from stalerow.simulator.oracle.violations import MARKS

    return [m for m in MARKS if m not in marks]


def _isolation_errors(error: BaseException) -> list[IsolationError]:
    """The isolation errors in an exception; Hypothesis groups them where it found several."""
    isolation = sys.modules.get("stalerow.simulator.testing.isolation")
    if isolation is None:
        return []
    if isinstance(error, BaseExceptionGroup):
        return [found for part in error.exceptions for found in _isolation_errors(part)]
    return [error] if isinstance(error, isolation.IsolationError) else []


def _save(item: pytest.Item, error: IsolationError) -> tuple[dict[str, str], str]:
    """Save the failing schedule, shrunk where that can be done here; returns properties and the report's section."""
    from stalerow.simulator.campaign import failures
    from stalerow.simulator.subject.trust import replay_command
    from stalerow.simulator.testing import reports

    config = item.config
    state = config.stash[STATE]
    shrink = error.about not in state.shrunk
    state.shrunk.add(error.about)
    failure, drawing = reports.failure_of(error, shrink=shrink)
    folder = config.getoption("--stalerow-failures") or config.rootpath / failures.FOLDER
    path = failures.save(failure, folder, prefix=item.nodeid)
    # Commands are for the folder in which pytest was started.
    here = config.invocation_params.dir
    shown = _relative(path, here)
    command = replay_command(shown, failure.subject)
    page = reports.save_page(error, failure, path, command)
    page_shown = "none: to run these kernels once more could end the process" if page is None else _relative(page, here)
    draw = failure.origin.draw
    properties = {
        "kind": failure.kind,
        "launch": failure.signature[1],
        "explanation": failure.violation.explanation if failure.violation else "",
        "seed": "drawn by Hypothesis" if draw is None else str(draw.seed),
        "file": str(shown),
        "page": "" if page is None else str(page_shown),
        "command": command,
    }
    lines = [drawing] if drawing else []
    lines += [f"saved:  {shown}", f"page:   {page_shown}", f"replay: {command}"]
    if failure.origin.command:
        lines.append(f"        {failure.origin.command}   (the seed)")
    return properties, "\n".join(lines)


def _relative(path: Path, root: Path) -> Path:
    try:
        return path.relative_to(root)
    except ValueError:
        return path
