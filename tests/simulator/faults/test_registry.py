"""Names to faults: the catalogue's, a user's file, and what is said of a name that is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.scenarios import catalogue
from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults import Fault, builtin_faults, resolve
from stalerow.simulator.oracle.kinds import KINDS
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed

MINE = '''
from stalerow.simulator.faults import Fault
from stalerow.simulator.rank.policy import RankPolicy

class ReusesSlotsFirst(RankPolicy):
    phases = ("free", "consume", "admit", "update", "apply")

class Earlier(Fault):
    """Slots are given up before the deferred output is consumed."""
    name = "slots-earlier"
    summary = "free before consume"
    expected = ("stale slot",)
    rank = ReusesSlotsFirst

class PadsAsBefore(RankPolicy):
    zero_padding = True

class Same(Fault):
    """The correct system, said once more."""
    name = "same"
    rank = PadsAsBefore

'''


@pytest.mark.parametrize("fault", builtin_faults().values(), ids=list(builtin_faults()))
def test_a_fault_tells_its_story(fault: type[Fault]) -> None:
    assert fault.__doc__
    assert fault.summary
    assert fault.reports or "0.28.0" in fault.__doc__ or "0.34" in fault.__doc__
    assert fault.id
    assert fault.expected
    assert {*fault.expected} <= {*KINDS}
    assert "Needs" in fault.__doc__ or "report" in fault.__doc__


def test_no_faults_are_the_correct_system() -> None:
    schedule, kernels = from_seed(3), kernel_set("reference:req-idx")
    assert resolve([]).run(schedule, kernels).digest == run(schedule, kernels).digest


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="unknown fault 'stale-rov': did you mean 'stale-row'"):
        resolve(["stale-rov"])
    with pytest.raises(UsageError, match=r"known are accept-reset-race, .*FILE\.py:NAME"):
        resolve(["zzz"])


def test_a_fault_is_named_once() -> None:
    with pytest.raises(UsageError, match="'stale-row' is named 2 times"):
        resolve(["stale-row", "stale-row"])


def test_a_users_file_gives_all_its_faults_or_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    assert resolve([str(path)]).names == ("slots-earlier", "same")
    assert resolve([f"{path}:same"]).names == ("same",)
    assert resolve([f"{path}:Earlier", "stale-accept"]).names == ("slots-earlier", "stale-accept")
    with pytest.raises(UsageError, match="no fault 'other': it defines slots-earlier, same"):
        resolve([f"{path}:other"])


def test_a_users_fault_is_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    kernels = kernel_set("reference:req-idx")
    mine = resolve([f"{path}:slots-earlier"])
    assert mine.rank_policy.phases[0] == "free"
    assert mine.run(from_seed(1, 2, "v2"), kernels).steps
    assert resolve([f"{path}:same"]).run(from_seed(1), kernels).clean


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1", "defines no fault"), ("raise OSError('no')", "cannot be imported: OSError: no")],
)
def test_a_file_without_faults_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        resolve([str(path)])


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(UsageError, match="no such file"):
        resolve(["nowhere/mine.py"])


def test_faults_combine_over_the_same_and_over_different_points() -> None:
    schedule = catalogue()["stale-accept"].schedule
    assert schedule is not None
    kernels = kernel_set("reference:req-idx")
    both = resolve(["stale-accept", "seed-units", "overlap-shift", "accept-reset-race", "optimistic-free"])
    policy = both.rank_policy(schedule)
    assert policy.seed_accepted(None) is None  # type: ignore[arg-type]
    assert both.run(schedule, kernels).violations[0].kind == "stale slot"
