"""A line for every event that has something to tell, and one below it for what was found."""

import io

import pytest
from one_rank import both, hand, known, rank, row
from rich.console import Console
from small import step

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.events import EventPrinter, complaint, told
from stalerow.simulator.subject.subject import Subject


@pytest.fixture(scope="module")
def launches() -> dict:
    """The operations of a step by kind, on the first of two ranks."""
    made = rank()
    hand(made, both())
    hand(made, step(2))
    hand(made, step(3, (row("r0", 3, 2, 6),), cached=(known("r0", 6),)))
    return {operation.kind: operation for operation in made.queue.pending()}


def test_a_step_is_told_by_its_rows_and_who_joins():
    assert told("engine", both()) == [
        "engine    schedules step 1: r0[0+6] r1[0+6] (new r0 hit 0 blocks 1,2,3,4 / 5,6; new r1 hit 0 blocks 7,8 / 9)"
    ]


def test_drafts_appended_blocks_and_who_leaves_are_told():
    made = step(2, (row("r0", 3, 2, 6),), cached=(known("r0", 6, ((10,), ())),), finished=("r1",), preempted=("r2",))
    assert told("engine", made) == ["engine    schedules step 2: r0[6+3d2] (r0 + 10 / -; finished r1; preempted r2)"]
    assert told("engine", step(3)) == ["engine    schedules step 3: empty"]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("gather", "gather row 0 r0"),
        ("forward", "forward r0"),
        ("zero", "zero blocks 5, 6, 9"),
        ("post_update", "post_update of step 1 for r0, r1"),
        ("postprocess", "postprocess of step 1 for r0, r1"),
        ("precopy", "precopy"),
    ],
)
def test_a_launch_is_told_by_what_it_works_for(launches, kind, line):
    operation = launches[kind]
    assert told("device0", operation) == [f"device0   step {operation.step}: {line}"]


def test_nothing_is_told_of_an_actor_that_only_took_its_turn():
    assert told("host0", None) == []


def test_a_run_is_told_event_by_event_with_each_violation_once_below_its_own():
    out = io.StringIO()
    schedule = catalogue()["stale-row"].schedule
    outcome = Subject(kernels="reference:batch-row").run(schedule, EventPrinter(Console(file=out, width=80)))
    lines = out.getvalue().splitlines()
    found = [line for line in lines if "!!" in line]
    assert found
    assert found == [complaint(violation) for violation in outcome.violations][: len(found)]
    first = next(i for i, line in enumerate(lines) if "!!" in line)
    assert lines[first - 1].startswith("device0   step 8: postprocess of step 6")
    assert sum("schedules step" in line for line in lines) == outcome.steps
    assert not any("block_counts" in line or " indices" in line for line in lines)
