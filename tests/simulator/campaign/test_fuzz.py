"""Campaigns: what they find does not depend on jobs or luck, and nothing that happens to them loses it."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.fuzz import Campaign
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.commands.fuzz import duration, shard
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

BATCH_ROW = Subject(kernels="reference:batch-row")
REQ_IDX = Subject(kernels="reference:req-idx")


class Quiet:
    """A listener that keeps what it is told."""

    def __init__(self, on_finding=None):
        self.findings, self.breaches, self.notes = [], [], []
        self._on_finding = on_finding

    def tick(self, tally, doing):
        pass

    def finding(self, finding):
        self.findings.append(finding)
        if self._on_finding:
            self._on_finding()

    def breach(self, finding):
        self.breaches.append(finding)

    def note(self, text):
        self.notes.append(text)


def fuzz(tmp_path, subject, listener=None, **options):
    return Campaign(Options(subject=subject, folder=tmp_path / "failures", **options), listener or Quiet()).run()


def test_the_first_failure_is_the_same_with_any_number_of_jobs(tmp_path):
    one = fuzz(tmp_path / "1", BATCH_ROW, jobs=1, runs=30)
    two = fuzz(tmp_path / "2", BATCH_ROW, jobs=2, runs=30)
    (first,), (second,) = one.findings, two.findings
    assert first.failure == second.failure
    assert first.drawing == second.drawing
    assert one.exit_code() == two.exit_code() == 1


def test_findings_are_as_wide_as_the_terminal_of_who_asked(tmp_path, monkeypatch):
    """Workers, here processes of their own, need not have one."""
    monkeypatch.setattr("stalerow.simulator.campaign.fuzz.width_here", lambda: 44)
    tally = fuzz(tmp_path, Subject(kernels="reference:req-idx", faults=("null-state",)), runs=1)
    assert max(map(len, tally.findings[0].drawing.splitlines())) == 44


def test_a_finding_is_saved_shrunk_and_drawn(tmp_path):
    listener = Quiet()
    tally = fuzz(tmp_path, BATCH_ROW, listener, runs=30)
    (finding,) = tally.findings
    assert listener.findings == [finding]
    assert failures.load(finding.path).failure == finding.failure
    assert finding.failure.shrunk
    assert len(finding.failure.schedule.requests) == 2
    lines = finding.drawing.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert finding.failure.origin.command == "stalerow replay 4 --kernels reference:batch-row"
    assert list((tmp_path / "running").iterdir()) == []


def test_a_clean_campaign_counts_marks(tmp_path):
    tally = fuzz(tmp_path, REQ_IDX, jobs=2, runs=16)
    assert tally.schedules == 16
    assert (tally.exit_code(), tally.exit_code(require_marks=True)) == (0, 1)
    assert tally.marks["running column moved"] > 8
    assert "open window" in tally.missed
    assert not (tmp_path / "failures").exists()


def test_shards_divide_the_seeds_between_them():
    whole = [d.seed for d in Options(subject=REQ_IDX, draw=Draw(5), runs=20).draws()]
    parts = [[d.seed for d in Options(subject=REQ_IDX, draw=Draw(5), runs=20, shard=(i, 3)).draws()] for i in (1, 2, 3)]
    assert whole == list(range(5, 25))
    assert sorted(seed for part in parts for seed in part) == whole
    assert all(part == sorted(part) for part in parts)


@pytest.mark.parametrize(("name", "how"), [("exits", "exited with code 7"), ("segfaults", "was killed by SIGSEGV")])
def test_a_seed_that_kills_its_worker_is_a_finding(tmp_path, doubles, name, how):
    tally = fuzz(tmp_path, Subject(kernels=f"stalerow_doubles:{name}"), runs=12, keep_going=True)
    (finding,) = tally.findings
    assert finding.failure.kind == "crash"
    assert how in finding.failure.note
    assert tally.schedules == 12
    assert tally.kinds["crash"] > 1
    assert failures.load(finding.path).failure.schedule.draw == finding.failure.origin.draw


def test_kernels_that_read_the_clock_are_a_determinism_breach(tmp_path, doubles):
    listener = Quiet()
    tally = fuzz(tmp_path, Subject(kernels="stalerow_doubles:clock"), listener, runs=4, draw=Draw(0, runner="v2"))
    (breach,) = tally.breaches
    assert breach.failure.kind == "determinism breach"
    assert "the runs part at decision " in breach.failure.note
    assert "memory differs" in breach.failure.note
    assert tally.exit_code() == 3
    assert listener.breaches == [breach]


def test_an_error_in_the_kernels_is_a_finding_with_its_seed(tmp_path, doubles):
    tally = fuzz(tmp_path, Subject(kernels="stalerow_doubles:raises"), runs=4)
    (finding,) = tally.findings
    assert finding.failure.kind == "kernel raised"
    assert "ZeroDivisionError at stalerow_doubles.py:" in finding.failure.violation.explanation
    assert len(finding.failure.schedule.requests) == 1
    assert tally.exit_code() == 1


def test_a_launch_that_does_not_return_is_a_finding_with_its_seed_and_place(tmp_path, doubles, hanging):
    tally = fuzz(tmp_path, Subject(kernels="stalerow_doubles:hangs"), runs=1, schedule_s=4.0)
    (finding,) = tally.findings
    assert finding.failure.kind == "hang"
    assert finding.failure.origin.draw == Draw(0)
    assert "did not return within" in finding.failure.note
    assert "it was at stalerow_doubles.py:" in finding.failure.note
    assert tally.exit_code() == 1


def test_a_bug_that_every_schedule_shows_is_shrunk_to_the_smallest(tmp_path, doubles):
    tally = fuzz(tmp_path, Subject(kernels="stalerow_doubles:wrong_indices"), runs=1)
    (finding,) = tally.findings
    assert finding.failure.shrunk
    assert len(finding.failure.schedule.requests) == 1


@pytest.mark.parametrize("options", [{"runs": 1, "shard": (2, 2)}, {"seconds": 1e-6}])
def test_a_campaign_in_which_no_schedule_ended_is_not_clean(tmp_path, options):
    tally = fuzz(tmp_path, REQ_IDX, **options)
    assert (tally.schedules, tally.exit_code()) == (0, 2)


def test_an_unknown_kernel_set_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="unknown kernel set 'nope'"):
        fuzz(tmp_path, Subject(kernels="nope"), runs=2)


def test_an_interrupt_keeps_what_was_found(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    tally = fuzz(tmp_path, BATCH_ROW, Quiet(on_finding=interrupt), runs=30, keep_going=True)
    assert tally.interrupted
    assert tally.exit_code() == 130
    assert len(tally.findings) == 1
    assert tally.findings[0].path in failures.saved(tmp_path / "failures")


def test_time_bounds_a_campaign(tmp_path):
    """It ends by itself, though seeds go on without end; that some were run depends on the machine."""
    tally = fuzz(tmp_path, REQ_IDX, seconds=1.0)
    assert not tally.interrupted
    assert tally.seconds >= 1.0


def _start(folder: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "stalerow.simulator.commands.cli", "fuzz", "--kernels", "reference:batch-row"]
    command += ["--seed", "7", "--jobs", "1", "--time", "9h", "--keep-going", *options]
    command += ["--failures", str(folder / "failures")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)


def _more_than(known: int, folder: Path) -> Callable[[], bool]:
    return lambda: len(failures.saved(folder)) > known


def _wait_for(there: Callable[[], bool], process: subprocess.Popen) -> None:
    """Until it is there, however slow the machine; a process that ends first has failed."""
    while not there():
        assert process.poll() is None, f"ended with {process.returncode} before there was anything to see"
        time.sleep(0.02)


def test_killing_the_process_loses_no_failure_and_breaks_no_file(tmp_path):
    """Killed when a schedule is under way, then each time that another failure is there."""
    folder, running = tmp_path / "failures", tmp_path / "running"
    before: set[str] = set()
    for kill in range(3):
        process = _start(tmp_path)
        if kill:
            _wait_for(_more_than(len(before), folder), process)
        else:
            _wait_for(lambda: running.is_dir() and any(running.iterdir()), process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = failures.saved(folder)
        assert all(failures.load(path).problems == () for path in found)
        assert before <= {p.name for p in found}
        before = {p.name for p in found}
    assert len(before) >= 2
    process = _start(tmp_path, "--runs", "1")
    assert process.wait() == 1
    assert before <= {p.name for p in failures.saved(folder)}
    assert not list(folder.glob(".*.tmp"))


def test_ctrl_c_ends_with_130(tmp_path):
    process = _start(tmp_path)
    _wait_for(lambda: bool(failures.saved(tmp_path / "failures")), process)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert failures.saved(tmp_path / "failures")


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("2m", 120), ("1h", 3600), ("1.5", 1.5)])
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize(("read", "text"), [(duration, "soon"), (duration, "0s"), (shard, "3/2"), (shard, "0/2")])
def test_bad_option_values_say_what_to_give(read, text):
    with pytest.raises(argparse.ArgumentTypeError, match="give"):
        read(text)


def test_workers_write_down_what_they_are_at(tmp_path):
    running = tmp_path / "running"
    running.mkdir()
    (running / "999999999-0.txt").write_text("stalerow replay 3 --kernels batch-row\n")
    listener = Quiet()
    fuzz(tmp_path, REQ_IDX, listener, runs=1)
    assert listener.notes == ["an earlier campaign was killed while at: stalerow replay 3 --kernels batch-row"]
    assert os.listdir(running) == []
