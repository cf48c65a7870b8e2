"""`stalerow explore` from its options to its exit code."""

import pytest

from stalerow.simulator.commands.cli import main
from stalerow.simulator.schedule.generate import from_draw

SMALL = ["--requests", "2", "--steps", "5", "--prompt", "2", "--output", "3", "--jobs", "1"]


@pytest.fixture(autouse=True)
def in_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_one_workload_in_every_order_is_clean(capsys):
    assert main(["explore", "--kernels", "reference:req-idx", *SMALL]) == 0
    told = capsys.readouterr().out
    assert "1 workload, every acceptance of drafts, every order of events" in told
    assert "choices that only swap events that commute" in told
    assert "clean, exhaustively: this workload" in told


def test_a_bound_of_workloads_that_holds_is_named(capsys):
    bound = ["--requests", "1", "--steps", "4", "--prompt", "2", "--output", "2", "--workloads", "--jobs", "1"]
    assert main(["explore", "--kernels", "reference:batch-row", *bound]) == 0
    told = capsys.readouterr().out
    assert "clean, exhaustively: 1 request of 1 to 2 prompt tokens and 1 to 2 output tokens" in told
    assert main(["explore", "--kernels", "reference:batch-row", *bound, "--resume"]) == 0
    assert "4 done before" in capsys.readouterr().out


def test_a_shallow_staging_pool_is_found_and_saved_so_that_it_replays(capsys, tmp_path):
    shallow = ["--requests", "1", "--pp", "1", "--steps", "3", "--prompt", "2", "--output", "3"]
    assert main(["explore", "--kernels", "reference:req-idx", *shallow, "--staging-depth", "1", "--jobs", "1"]) == 1
    told = capsys.readouterr().out
    assert "FOUND" in told
    saved = sorted((tmp_path / ".stalerow" / "failures").glob("*.json"))
    assert saved
    assert main(["replay", str(saved[0])]) == 1
    assert "FAILS IN THE SAME WAY" in capsys.readouterr().out


def test_a_search_that_finishes_nothing_is_not_clean(capsys):
    assert main(["explore", "--kernels", "reference:req-idx", "--workloads", *SMALL, "--time", "0.000001"]) == 2
    assert "no workload was finished in time" in capsys.readouterr().err


def test_bounds_without_a_schedule_and_files_of_other_searches_are_usage_errors(capsys):
    assert main(["explore", "--drafts", "2", "--block-size", "2"]) == 2
    assert "a decode step would span blocks; give at least 3" in capsys.readouterr().err
    assert main(["explore", "--resume"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_seed_or_a_file_is_searched_in_every_order(capsys, tmp_path):
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.schedule.file import to_json

    (tmp_path / "made.json").write_bytes(to_json(from_draw(Draw(3))))
    told = []
    for source in ("3", "made.json"):
        assert main(["explore", source, "--kernels", "reference:req-idx", "--time", "20s", "--json", "a.json"]) == 0
        told.append(capsys.readouterr().out.splitlines()[2:])
    assert told[0] == told[1]
    assert told[0][-1] == "clean, exhaustively: this workload"
    assert main(["explore", "3", "--kernels", "reference:req-idx", "--resume"]) == 0
    assert "done before" in capsys.readouterr().out


def test_a_schedule_beside_a_bound_or_machines_is_a_usage_error(capsys):
    assert main(["explore", "3", "--steps", "4"]) == 2
    assert "--steps: a bound of workloads, and 3 is one" in capsys.readouterr().err
    assert main(["explore", "3", "--workloads"]) == 2
    assert main(["explore", "3", "--jobs", "2"]) == 2
    assert "--jobs 2: one workload is searched in one process" in capsys.readouterr().err
    assert main(["explore", "none.json"]) == 2
