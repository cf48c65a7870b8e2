"""`stalerow scenarios`: what its actions print, and with which exit code."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stalerow.scenarios import FOLDER, load
from stalerow.scenarios.command import ScenariosAnswer
from stalerow.scenarios.program import main
from stalerow.simulator.campaign import failures
from stalerow.simulator.subject.subject import Subject


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "list"]) == 0
    out = capsys.readouterr().out
    for path in FOLDER.glob("*.toml"):
        assert path.stem in out
    assert "not modelled" in out


def test_show_gives_report_fault_and_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "show", "stale-accept"]) == 0
    out = capsys.readouterr().out
    assert "https://github.com/vllm-project/vllm/issues/48132" in out
    assert "fault stale-accept: num_accepted of a slot's previous owner survives admission" in out
    assert "[[schedule.requests]]" in out


def test_run_says_found_and_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "run", "stale-accept", "drafter-page"]) == 0
    out = capsys.readouterr().out
    assert "stale slot (forward)" in out
    assert "1 of 1 as the reports say" in out


def test_run_fails_where_the_violation_is_another_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (FOLDER / "stale-accept.toml").read_text()
    path = tmp_path / "changed.toml"
    path.write_text(text.replace('launch = "forward"', 'launch = "precopy"'))
    assert main(["scenarios", "run", str(path)]) == 1
    assert "expected stale slot at precopy, got stale slot at forward" in capsys.readouterr().out


def test_an_unknown_name_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "run", "stale-rov"]) == 2
    assert "did you mean 'stale-row'?" in capsys.readouterr().err


def test_add_promotes_a_saved_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = load(FOLDER / "stale-accept.toml")
    assert scenario.schedule is not None
    subject = Subject(kernels="reference:req-idx", faults=("stale-accept",))
    violation = subject.run(scenario.schedule).violations[0]
    failure = failures.Failure(
        kind=violation.kind, subject=subject, violation=violation, schedule=scenario.schedule, shrunk=True
    )
    saved = failures.save(failure, tmp_path)
    assert main(["scenarios", "add", str(saved), "--name", "mine", "--folder", str(tmp_path)]) == 0
    assert "wrote" in capsys.readouterr().out
    added = load(tmp_path / "mine.toml")
    assert added.schedule == scenario.schedule
    assert added.faults == ("stale-accept",)
    assert added.run().ok
    capsys.readouterr()
    line = ["scenarios", "add", str(saved), "--name", "mine-too", "--folder", str(tmp_path), "--json"]
    assert main(line) == 0
    answer = msgspec.json.decode(capsys.readouterr().out, type=ScenariosAnswer)
    assert [(s.name, s.found, s.clean, s.schedule) for s in answer.scenarios] == [
        ("mine-too", True, True, scenario.schedule)
    ]
    assert main(["scenarios", "add", str(saved), "--name", "mine", "--folder", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_add_refuses_what_is_not_clean_without_its_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding in the kernels makes no scenario: there is no fault to leave out."""
    schedule = load(FOLDER / "stale-row.toml").schedule
    assert schedule is not None
    subject = Subject(kernels="reference:batch-row")
    violation = subject.run(schedule).violations[0]
    failure = failures.Failure(kind=violation.kind, subject=subject, violation=violation, schedule=schedule)
    saved = failures.save(failure, tmp_path)
    assert main(["scenarios", "add", str(saved), "--name", "mine", "--folder", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "would never pass as a scenario" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "mine.toml").exists()


def test_json_in_a_file_comes_beside_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "answer.json"
    for command in (["list"], ["show", "stale-row"], ["run", "stale-row"]):
        assert main(["scenarios", *command, "--json", str(path)]) == 0
        assert "stale-row" in capsys.readouterr().out
        assert "stale-row" in [s.name for s in msgspec.json.decode(path.read_bytes(), type=ScenariosAnswer).scenarios]
        assert main(["scenarios", *command, "--json"]) == 0
        assert msgspec.json.decode(capsys.readouterr().out, type=ScenariosAnswer).scenarios
