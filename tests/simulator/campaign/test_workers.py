"""Workers that die, raise and work."""

import os
import signal
import time
from pathlib import Path

import pytest

from stalerow.simulator.campaign.workers import Workers, abandoned
from stalerow.simulator.errors import InternalError, UsageError


def square(task):
    if task == "exit":
        os._exit(9)
    if task == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if isinstance(task, Path):  # killed from outside, once
        if not task.exists():
            task.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return "at last"
    if task == "hang":
        from stalerow_doubles import hang

        hang()
    if task == "usage":
        raise UsageError("no such thing")
    if task == "bug":
        raise KeyError("gone")
    if isinstance(task, tuple):
        time.sleep(task[0])
        return Path(task[1]).read_text()
    return task * task


def test_results_come_in_the_order_of_tasks():
    with Workers(2, square) as workers:
        assert [d.value for d in workers.map(iter(range(9)))] == [n * n for n in range(9)]


def test_a_death_costs_its_own_task_only():
    with Workers(2, square) as workers:
        done = list(workers.map(iter([2, "exit", 3, "segv", 4])))
    assert [d.value for d in done] == [4, None, 9, None, 16]
    assert [d.died for d in done] == ["", "exited with code 9", "", "killed by SIGSEGV", ""]
    assert [d.task for d in done] == [2, "exit", 3, "segv", 4]


def test_a_process_killed_from_outside_costs_nothing_but_time(tmp_path):
    with Workers(1, square) as workers:
        (done,) = workers.map(iter([tmp_path / "killed"]))
    assert (done.value, done.died) == ("at last", "")


def test_a_task_that_does_not_return_is_ended_and_its_place_is_told(doubles, hanging):
    with Workers(1, square, limit_s=3.0) as workers:
        hung, fine = workers.map(iter(["hang", 4]))
    assert hung.hung.startswith("did not return within 3 s; it was at stalerow_doubles.py:")
    assert fine.value == 16


class SlowToArrive:
    """A task whose process takes long before it has the task."""

    limit_s = 0.5

    def __setstate__(self, state):
        time.sleep(4 * self.limit_s)


def kind(task):
    return type(task).__name__


def test_the_start_of_a_process_does_not_count_for_its_task():
    with Workers(1, kind) as workers:
        task = SlowToArrive()
        task.state = "so that it is pickled with one"
        (done,) = workers.map(iter([task]))
    assert (done.value, done.hung) == ("SlowToArrive", "")


def test_errors_come_back_with_their_trace():
    with Workers(1, square) as workers:
        usage, bug, fine = workers.map(iter(["usage", "bug", 5]))
    assert isinstance(usage.error, UsageError)
    assert str(usage.error) == "no such thing"
    assert isinstance(bug.error, InternalError)
    assert "gone" in str(bug.error)
    assert "KeyError" in bug.trace
    assert fine.value == 25


def test_a_task_is_written_down_before_it_starts(tmp_path):
    notes = tmp_path / "notes"
    with Workers(1, square, notes) as workers:
        note = notes / f"{os.getpid()}-0.txt"
        (done,) = workers.map(iter([(0.0, str(note))]))
        assert done.value == f"{(0.0, str(note))}\n"
    assert list(notes.iterdir()) == []


def test_notes_of_killed_parents_are_found(tmp_path):
    (tmp_path / "999999999-0.txt").write_text("seed 5\n")
    (tmp_path / f"{os.getpid()}-0.txt").write_text("seed 6\n")
    assert abandoned(tmp_path) == [(tmp_path / "999999999-0.txt", "seed 5\n")]


def test_leaving_ends_workers_that_are_busy():
    with Workers(1, square) as workers:
        workers.submit((86400.0, os.devnull))
        process = workers._workers[0].process
    assert not process.is_alive()
    assert process.exitcode in (-signal.SIGTERM, -signal.SIGKILL)


@pytest.mark.parametrize("jobs", [1, 3])
def test_running_and_idle_add_up(jobs):
    with Workers(jobs, square) as workers:
        assert (workers.idle, workers.running) == (jobs, 0)
        ticket = workers.submit(7)
        assert (workers.idle, workers.running) == (jobs - 1, 1)
        (done,) = workers.wait()
        assert (done.ticket, done.value) == (ticket, 49)
        assert (workers.idle, workers.running) == (jobs, 0)
