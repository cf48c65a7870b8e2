"""A walk stands at an event, goes where it is told, and shows what it is asked for."""

import io
import re

import pytest
from rich.console import Console

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.walk import KEYS, walk
from stalerow.simulator.errors import UsageError
from stalerow.simulator.subject.subject import Subject

SCHEDULE = catalogue()["stale-row"].schedule
FAULTY, HEALTHY = Subject(kernels="reference:batch-row"), Subject(kernels="reference:req-idx")


def walked(*answers: str, subject: Subject = FAULTY, until=None, events: bool = True) -> tuple[str, list[int]]:
    """What was printed, and the event at which each question was asked."""
    out, left, at = io.StringIO(), [*answers], []

    def ask(prompt: str) -> str:
        at.append(int(re.match(r"\[(\d+)/", prompt)[1]))
        if not left:
            raise EOFError
        return left.pop(0)

    walk(subject.run, SCHEDULE, Console(file=out, width=100), until=until, ask=ask, events=events)
    return out.getvalue(), at


@pytest.fixture(scope="module")
def last() -> int:
    return walked("G")[1][-1]


def test_it_goes_on_and_back_and_to_either_end(last):
    assert walked("", "n", "b", "G", "g", "q")[1] == [1, 2, 3, 2, last, 1]


def test_there_is_nothing_before_the_first_event_or_behind_the_last(last):
    out, at = walked("b", "G", "", str(last + 1), "0")
    assert at == [1, 1, last, last, last, last]
    assert out.count("there is no event that way") == 4


def test_it_goes_to_a_number_a_step_and_the_violations():
    _, (_, seventh, step, violation, back) = walked("7", "step 2", "v", "7")
    assert (seventh, back) == (7, 7)
    assert 7 < step < violation
    out, at = walked("v", "V")
    assert at[1] == at[2] == violation
    assert "there is no event that way" in out


def test_until_the_violation_it_shows_the_state_there():
    out, at = walked(until="violation")
    assert re.match(r"after event \d+ \(device0\): the first violation\n", out)
    assert f"after event {at[0]} " in out
    assert "!! cross-request copy: " in out
    assert "blocks by owner" in out


def test_a_step_that_the_run_does_not_reach_is_said_with_the_last_state():
    out, at = walked(until=99)
    assert at == []
    assert out.startswith("the run ended after step 10, before step 99: this is its last state\n")
    assert "end of run: 10 steps, " in out


def test_a_clean_run_has_no_violation_to_go_to():
    out, at = walked("v", subject=HEALTHY)
    assert at == [1, 1]
    assert "there is no event that way" in out
    assert out.rstrip().splitlines()[-1].startswith("end of run: 10 steps, 0 violations, digest ")


def test_the_state_is_shown_whole_and_the_change_alone():
    whole, _ = walked("20", "s")
    change, _ = walked("20", "c")
    for part in ("engine   ", "rank 0   ", "rank 1   "):
        assert f"\n{part}" in whole
    assert sum(f"\n{part}" in change for part in ("engine   ", "rank 0   ", "rank 1   ")) == 1


def test_an_answer_that_is_no_key_gets_the_keys():
    out, at = walked("x", "?", "7½")
    assert at == [1, 1, 1, 1]
    assert out.count("'x' is none of the keys:") == out.count("'7½' is none of the keys:") == 1
    assert out.count(KEYS[-1][1]) == 3


def test_where_nobody_can_be_asked_every_event_is_printed(last):
    out = io.StringIO()
    walk(FAULTY.run, SCHEDULE, Console(file=out, width=100))
    assert [int(n) for n in re.findall(r"^\[(\d+)\] ", out.getvalue(), re.MULTILINE)] == [*range(1, last + 1)]


def test_an_error_is_raised_after_what_led_to_it():
    with pytest.raises(UsageError, match="no-such-kernels"):
        walked(subject=Subject(kernels="no-such-kernels"))
