"""One worker process: it answers, says what it was at, and how it ended."""

import signal

import pytest

from stalerow.simulator.campaign.process import GRACE_S, Worker, _innermost, attempt, how_it_ended
from stalerow.simulator.errors import InternalError, UsageError

STACK = """Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/x/site-packages/triton/runtime/interpreter.py", line 90 in load
  File "/x/site-packages/stalerow/kernels/align/copy.py", line 31 in copy_state
  File "/x/own/mamba_utils.py", line 459 in postprocess
"""


def taken(worker):
    """What became of the task, past the note that it has begun."""
    assert worker.pipe.poll(60)
    assert worker.take() is None
    assert worker.began is not None
    assert worker.pipe.poll(60)
    return worker.take()


def test_a_process_answers_notes_its_task_and_is_gone_when_it_is_stopped(tmp_path):
    note = tmp_path / "note.txt"
    worker = Worker(len, note)
    try:
        assert worker.give(7, "four")
        done = taken(worker)
        assert (done.ticket, done.task, done.value, done.error, done.died) == (7, "four", 4, None, "")
        assert worker.at is None
        assert note.read_text() == "four\n"
        assert worker.give(8, 5)
        failed = taken(worker)
        assert isinstance(failed.error, InternalError)
        assert "TypeError" in failed.trace
    finally:
        worker.stop()
    assert not worker.process.is_alive()
    assert not note.exists()
    assert worker.stack is not None
    assert not worker.stack.exists()
    assert GRACE_S > 0


def test_an_attempt_gives_a_value_or_an_error_that_can_travel():
    assert attempt(len, "abc") == (3, None, "")
    value, error, trace = attempt(int, "x")
    assert value is None
    assert isinstance(error, InternalError)
    assert "invalid literal" in str(error)
    assert trace.startswith("Traceback")


def refuses(task: str):
    try:
        int(task)
    except ValueError as error:
        raise UsageError(f"{task!r} is no number") from error


def test_a_users_mistake_stays_one_and_leaves_its_causes_behind():
    _, error, _ = attempt(refuses, "x")
    assert type(error) is UsageError
    assert str(error) == "'x' is no number"
    assert error.__cause__ is None
    assert error.__traceback__ is None


def test_a_place_is_the_innermost_one_outside_of_libraries():
    assert _innermost(STACK) == "copy.py:31"
    assert _innermost("\n".join(STACK.splitlines()[:3])) == "threading.py:324"
    assert _innermost("") == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "closed its pipe"),
        (9, "exited with code 9"),
        (-int(signal.SIGSEGV), "killed by SIGSEGV"),
        (-200, "exited with code -200"),
    ],
)
def test_an_end_is_told_by_its_signal_or_code(code, words):
    assert how_it_ended(code) == words
