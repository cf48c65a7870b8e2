"""`failures list|prune` and `replay DIR`."""

import msgspec
import pytest
from msgspec.structs import replace

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.failures import Failure
from stalerow.simulator.commands.cli import main
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

BATCH_ROW, REQ_IDX = Subject(kernels="reference:batch-row"), Subject(kernels="reference:req-idx")

SCHEDULE = from_seed(next(s for s in range(30) if BATCH_ROW.run(from_seed(s)).violations))
VIOLATION = BATCH_ROW.run(SCHEDULE).violations[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two that fail in the same way, one of them shrunk, and one that no longer fails."""
    monkeypatch.chdir(tmp_path)
    schedule = SCHEDULE
    violation = VIOLATION
    failing = Failure(kind=violation.kind, subject=BATCH_ROW, violation=violation, schedule=schedule)
    failures.save(replace(failing, shrunk=True), prefix="a-shrunk")
    failures.save(failing, prefix="b-found")
    failures.save(replace(failing, subject=REQ_IDX), prefix="c-fixed")
    return failures.FOLDER


def names(folder):
    return [path.stem[-7:] for path in failures.saved(folder)]


def test_listing_tells_kind_launch_subject_and_file(folder, capsys):
    assert main(["failures", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith(f"{VIOLATION.kind} in {VIOLATION.launch}  reference:batch-row  ")
    assert "not shrunk" not in lines[0]
    assert "a_shrunk" in lines[1]


def test_json_has_a_versioned_schema(folder, capsys):
    assert main(["failures", "list", "--json"]) == 0
    data = msgspec.json.decode(capsys.readouterr().out)
    assert data["schema"] == "stalerow.failures/1"
    assert {f["kind"] for f in data["failures"]} == {VIOLATION.kind}


def test_pruning_keeps_the_smallest_of_each_finding(folder, capsys):
    assert main(["failures", "prune", "--dry-run"]) == 0
    assert "would remove" in capsys.readouterr().out
    assert len(names(folder)) == 3
    assert main(["failures", "prune"]) == 0
    assert len(names(folder)) == 2
    assert not any("b_found" in path.name for path in failures.saved(folder))


def test_pruning_what_is_fixed_runs_all_again(folder):
    assert main(["failures", "prune", "--fixed", "--jobs", "1"]) == 0
    assert len(names(folder)) == 2
    assert not any("c_fixed" in path.name for path in failures.saved(folder))


def test_a_folder_is_replayed_whole(folder, capsys):
    assert main(["replay", str(folder)]) == 1
    told = capsys.readouterr().out
    assert told.count("FAILS IN THE SAME WAY") == 2
    assert told.count("NO LONGER FAILS") == 1
    assert "2 of 3 still fail" in told


def test_folders_without_failures_are_usage_errors(tmp_path, capsys):
    assert main(["replay", str(tmp_path)]) == 2
    assert "holds no saved failure" in capsys.readouterr().err
    assert main(["failures", "list", "--failures", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_a_campaigns_sums_are_written_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--kernels", "reference:req-idx", "--runs", "3", "--jobs", "1", "--json", "sums.json"]
    assert main(["fuzz", *options]) == 0
    data = msgspec.json.decode((tmp_path / "sums.json").read_bytes())
    assert (data["schema"], data["schedules"], data["findings"]) == ("stalerow.fuzz/1", 3, [])
    assert data["plateau"] == 3 - max(data["first_seen"].values())
    assert set(data["marks"]) == set(data["first_seen"])
