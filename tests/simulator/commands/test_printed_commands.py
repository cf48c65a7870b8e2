"""Every command that is printed for a failure makes the same failure again: 200 of them, from every path, are run."""

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import cycle, islice, product
from pathlib import Path

import msgspec
import pytest

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.compare import Setting, run_seeds
from stalerow.simulator.campaign.scan import Record
from stalerow.simulator.campaign.trials import Trial
from stalerow.simulator.commands.cli import main
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.subject.trust import replay_command
from stalerow.simulator.testing import reports
from stalerow.simulator.testing.isolation import IsolationError, assert_isolated

BATCH_ROW = Subject(kernels="reference:batch-row")
SUBJECTS = (
    BATCH_ROW,
    Subject(kernels="reference:req-idx", faults=("stale-accept",)),
    Subject(kernels="reference:batch-row", faults=("no-generation-check",)),
)

Printed = tuple[str, str]
"""A command as it is printed, and the digest of the run that it was printed for."""


def draws() -> Iterator[Draw]:
    """Draws with every combination of what may be asked for, one seed after the other."""
    asked = list(
        product((None, 1, 2, 4), (None, "v1", "v2"), (False, True), (None, 3), (None, "0.32", "0.33"), (None, 6))
    )
    for seed, one in enumerate(asked[i * 37 % len(asked)] for i in range(10**6)):
        pp, runner, faithful, family, profile, swarm = one
        yield Draw(seed, pp=pp, runner=runner, faithful=faithful, family=family, profile=profile, swarm=swarm)  # type: ignore[arg-type]


def by_fuzz(subject: Subject, draw: Draw) -> Printed | None:
    seen = Trial(draw, subject).do()
    if seen.skipped:
        return None
    if seen.violation is None:
        return str(Trial(draw, subject)), seen.digests[0]
    return findings.unshrunk(seen, subject, "").origin.command, seen.digests[0]


def by_assertion(subject: Subject, draw: Draw) -> Printed | None:
    try:
        assert_isolated(from_draw(draw), subject)
    except IsolationError as error:
        return str(error).rsplit("again: ", 1)[1], error.outcome.digest
    return None


def by_comparison(subject: Subject, draw: Draw) -> Printed | None:
    setting = Setting(subject, draw)
    (result,) = run_seeds(setting, [draw.seed])
    return None if result.skipped else (setting.command(draw.seed), result.digest)


def by_interleaving(subject: Subject, draw: Draw) -> Printed | None:
    triton = Subject(kernels="batch-row", device="cpu")
    return by_fuzz(triton, Draw(draw.seed, pp=2, runner="v2", interleave=True))


def by_saved_failure(subject: Subject, draw: Draw) -> Printed | None:
    seen = Trial(draw, subject).do()
    if seen.violation is None:
        return None
    failure = findings.unshrunk(seen, subject, "")
    return replay_command(failures.save(failure, "a folder's failures"), subject), seen.digests[0]


def by_plugin(subject: Subject, draw: Draw) -> Printed | None:
    try:
        assert_isolated(from_draw(draw), subject)
    except IsolationError as error:
        failure, _ = reports.failure_of(error, shrink=False)
        path = failures.save(failure, "failures", prefix="tests/test_a.py::test_seeds[seed 1]")
        return replay_command(path, failure.subject), error.outcome.digest
    return None


def by_pack(subject: Subject, draw: Draw) -> Printed | None:
    draw = msgspec.structs.replace(draw, runner="v2", family=draw.family or 0)
    (universe,) = Record((draw,), BATCH_ROW, 1).do()
    seen = Trial(universe.draw, BATCH_ROW).do()
    assert seen.memory == universe.memory
    return universe.draw.command(BATCH_ROW), seen.digests[0]


PATHS = {
    by_fuzz: 76,
    by_interleaving: 4,
    by_assertion: 12,
    by_comparison: 70,
    by_pack: 10,
    by_saved_failure: 14,
    by_plugin: 14,
}


def test_there_are_two_hundred() -> None:
    assert sum(PATHS.values()) >= 200


@pytest.mark.parametrize(("path", "count"), PATHS.items())
def test_a_printed_command_gives_the_same_digest(
    path: Callable[[Subject, Draw], Printed | None],
    count: int,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    made = (path(subject, draw) for subject, draw in zip(cycle(SUBJECTS), draws()))
    for command, digest in islice((p for p in made if p is not None), count):
        program, *arguments = shlex.split(command)
        assert program == "stalerow"
        code = main(arguments)
        shown = capsys.readouterr().out
        assert re.findall(r"digest ([0-9a-f]{32})", shown)[-1] == digest, command
        clean = re.search(r"^clean: ", shown, re.MULTILINE) is not None
        untested = "note: nothing was tested" in shown
        assert code == (2 if untested else 0 if clean else 1), command
