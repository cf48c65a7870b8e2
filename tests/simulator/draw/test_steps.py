"""Steps across and ranks down, as many as fit; and the rows that were looked up beside those that were meant."""

import re

import msgspec
import pytest

from stalerow.simulator.draw.finding import finding
from stalerow.simulator.draw.picture import text
from stalerow.simulator.draw.record import Admission, Executed, Scheduled, Seat, Share
from stalerow.simulator.draw.steps import MOST_ROWS, MOST_STEPS, _decisions, _late, _seats, looked_up, timeline


def drawn(record, width: int) -> str:
    return text(timeline(record, finding(record), width), width)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_the_steps_of_the_violation_are_always_there_and_the_rest_as_far_as_it_fits(seed_bug, width):
    drawing = drawn(seed_bug, width)
    header = drawing.splitlines()[0]
    steps = [int(number) for number in re.findall(r"step (\d+)", header)]
    assert {6, 7, 8} <= {*steps}
    assert steps == sorted(steps)
    assert len(steps) <= MOST_STEPS
    assert "step 8 *" in header
    assert max(map(len, drawing.splitlines())) <= width


def test_more_steps_fit_where_there_is_more_room(seed_bug):
    shown = [drawn(seed_bug, width).splitlines()[0].count("step") for width in (40, 60, 100)]
    assert shown == sorted(shown)
    assert shown[0] < shown[-1]


def test_the_wrong_launch_is_marked_with_the_table_that_it_found(seed_bug):
    drawing = drawn(seed_bug, 100)
    assert "!! of 6" in drawing
    assert "table 7" in drawing
    by_slot = msgspec.structs.replace(seed_bug, lookup="slot")
    assert "table 7" not in drawn(by_slot, 100)


def test_who_joins_and_leaves_is_said_in_the_engines_line():
    step = Scheduled(
        step=3,
        admitted=(Admission(request="a"), Admission(request="b", hit=4, resumed=True)),
        finished=("c",),
        aborted=("d",),
        preempted=("e",),
        copies=((1, 2),),
    )
    assert _decisions(step) == ["+a", "+b again", " hit 4", "c done", "d aborted", "e preempted", "cow 1->2"]


def batch(rows: int, padded: int = 0) -> Executed:
    seats = tuple(Seat(request=f"r{i}") for i in range(rows))
    return Executed(launch="gather", step=1, of=1, rows=seats, padded=padded)


def test_rows_say_how_many_tokens_and_drafts_they_have():
    shares = {"r0": Share(request="r0", tokens=3, drafts=2), "r1": Share(request="r1", tokens=6)}
    assert _seats(batch(3), shares) == ["r0 +3d2", "r1 +6", "r2"]
    assert _seats(batch(1, padded=3), {}) == ["r0", "~3 padded"]
    assert _seats(batch(MOST_ROWS + 2), {})[-1] == "+2 rows"


def test_rows_that_a_late_launch_leaves_out_are_in_brackets():
    seats = Seat(request="r0", masked=True), Seat(request="r1")
    late = Executed(launch="postprocess", step=3, of=1, rows=seats, table=2)
    assert _late(late, False, by_row=True) == "of 1\n table 2\n (r0)"
    assert _late(late, True, by_row=False) == "!! of 1\n (r0)"
    assert _late(msgspec.structs.replace(late, launch="precopy", rows=()), True, by_row=False) == "!! precopy of 1"


def test_the_table_of_rows_names_who_was_meant_and_who_sits_there(seed_bug):
    lines = text(looked_up(seed_bug, finding(seed_bug)), 80).splitlines()
    assert " ".join(lines[0].split()) == "row batch of step 6 table of step 7"
    assert next(line for line in lines if line.startswith("0")).split() == ["0", "r3", "r4", "<-"]
