"""Saved failures from what workers send back, and the sums of a campaign."""

import dataclasses

import msgspec
import pytest

from stalerow.simulator.campaign import findings
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.trials import Reduced, Trial
from stalerow.simulator.oracle.violations import MARKS
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw, from_seed
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.rules.uniform import Uniform
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")


def test_a_failure_as_found_keeps_the_draw_and_says_how_to_get_it_back(seen, violation):
    made = findings.unshrunk(seen, SUBJECT, "not shrunk yet")
    assert made.schedule == from_draw(Draw(7))
    assert (made.kind, made.violation, made.digest, made.shrunk, made.note) == (
        "stale slot", violation, "ab", False, "not shrunk yet"
    )  # fmt: skip
    assert made.origin.command == "stalerow replay 7 --kernels reference:batch-row"
    assert (made.origin.requests, made.origin.decisions, made.origin.launch) == (3, 40, "precopy")


def test_what_a_rule_picked_is_written_down(seen):
    seed = next(n for n in range(60) if isinstance(from_seed(n).order.rule, Uniform))
    picked = Order(picks=((3, 1),))
    made = findings.unshrunk(dataclasses.replace(seen, draw=Draw(seed), order=picked), SUBJECT, "")
    assert made.schedule.order == picked
    assert (
        findings.unshrunk(dataclasses.replace(seen, order=None, draw=Draw(seed)), SUBJECT, "").schedule.order != picked
    )


def test_a_shrunk_failure_has_the_smaller_schedule_and_the_first_ones_origin(seen, violation):
    smaller = from_seed(1)
    other = msgspec.structs.replace(violation, step=1)
    made = findings.shrunk(seen, SUBJECT, Reduced(smaller, other, "cd", "", 9))
    assert made.shrunk
    assert (made.schedule, made.violation, made.digest) == (smaller, other, "cd")
    assert (made.origin.draw, made.origin.digest) == (Draw(7), "ab")


@pytest.mark.parametrize(
    ("make", "how", "kind", "note"),
    [
        (findings.crash, "killed by SIGSEGV", "crash", "the worker process was killed by SIGSEGV; so did a second"),
        (findings.crash, "exited with code 3", "crash", "the worker process exited with code 3; so did"),
        (findings.hang, "did not return within 2 s", "hang", "the schedule did not return within 2 s"),
    ],
)
def test_a_run_that_was_lost_is_a_failure_without_a_violation(make, how, kind, note):
    made = make(Trial(Draw(4), SUBJECT), how)
    assert (made.kind, made.violation, made.digest) == (kind, None, None)
    assert made.note.startswith(note)
    assert made.schedule == from_draw(Draw(4))


def test_a_tally_counts_schedules_by_kind_and_by_mark():
    tally = Tally()
    tally.count(("preemption",), None)
    tally.count(("preemption", "prefix hit"), "torn copy")
    tally.count((), "torn copy")
    assert (tally.schedules, dict(tally.kinds), dict(tally.marks)) == (
        3, {"torn copy": 2}, {"preemption": 2, "prefix hit": 1}
    )  # fmt: skip
    assert tally.first_seen == {"preemption": 1, "prefix hit": 2}
    assert tally.plateau == 1
    assert {*tally.missed} == {*MARKS} - {"preemption", "prefix hit"}


def test_exit_codes_of_a_campaign(seen, tmp_path):
    found = Finding(findings.unshrunk(seen, SUBJECT, ""), tmp_path / "x.json")
    assert Tally().exit_code() == 2
    assert Tally(schedules=1).exit_code() == 0
    assert Tally(schedules=1).exit_code(require_marks=True) == 1
    assert Tally(schedules=1, findings=[found]).exit_code() == 1
    assert Tally(schedules=1, findings=[found], breaches=[found]).exit_code() == 3
    assert Tally(schedules=1, breaches=[found], interrupted=True).exit_code() == 130
