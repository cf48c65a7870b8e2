"""Shrinking by the generator's own picks: a seed's picks made into a list, in canonical order, part by part."""

import pytest

from stalerow.simulator.campaign.candidates import Candidates, signature
from stalerow.simulator.campaign.picks import _canonical, _leaving_out, _recorded, _without_parts, by_hypothesis
from stalerow.simulator.schedule.choosers.recorded import RecordedChooser
from stalerow.simulator.schedule.choosers.recording import RecordingChooser
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw, generate
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")
DRAW = Draw(558, pp=2, runner="v2")
"""Two requests and three holds; it fails in canonical order as well."""
LARGE = Draw(7, runner="v2")
"""Four requests in an order of priorities."""


@pytest.fixture(scope="module")
def wanted():
    return signature(SUBJECT.run(from_draw(DRAW)).violations[0])


def candidates(wanted, budget: int) -> Candidates:
    return Candidates(SUBJECT, wanted, budget, lambda schedule: schedule)


def made(recording: RecordingChooser, draw: Draw, pp: int | None) -> Schedule:
    choices = [pick.choice for pick in recording.picks]
    return generate(RecordedChooser(choices), pp, draw.runner)


@pytest.mark.parametrize("draw", [DRAW, LARGE, Draw(7, pp=4, runner="v2"), Draw(3, family=2, runner="v2")], ids=str)
def test_the_picks_of_a_draw_make_its_schedule_again(draw):
    recording, pp = _recorded(draw)
    assert made(recording, draw, pp).requests == from_draw(draw).requests
    assert made(recording, draw, pp).pipeline == from_draw(draw).pipeline


def test_a_pipeline_size_that_was_asked_for_becomes_a_pick_that_can_shrink():
    recording, pp = _recorded(Draw(7, pp=4, runner="v2"))
    assert pp is None
    assert [pick.choice for pick in recording.picks if pick.label == "pp"] == [1]
    assert _recorded(Draw(7, pp=6, runner="v2"))[1] == 6


def test_an_order_that_is_not_needed_is_left_out_first(wanted):
    start, pp = _recorded(DRAW)
    assert from_draw(DRAW).order.deviations or from_draw(DRAW).order.rule
    canonical = _canonical(candidates(wanted, 1), start, pp, DRAW.runner)
    assert made(canonical, DRAW, pp).order.deviations == 0
    assert made(canonical, DRAW, pp).requests == from_draw(DRAW).requests
    assert _canonical(candidates(wanted, 0), start, pp, DRAW.runner) is start


def test_leaving_out_a_request_leaves_the_others_as_they_were():
    start, pp = _recorded(LARGE)
    before = made(start, LARGE, pp).requests
    less = RecordingChooser(RecordedChooser(_leaving_out(start, 0)))
    after = generate(less, pp, LARGE.runner).requests
    assert len(after) == len(before) - 1
    assert [r.prompt_len for r in after] == [r.prompt_len for r in before[1:]]


def test_parts_are_left_out_as_long_as_it_fails_alike(wanted):
    start, pp = _recorded(DRAW)
    asked = candidates(wanted, 3)
    fewer = _without_parts(asked, start, pp, DRAW.runner)
    assert asked.runs <= 3
    assert len(fewer.parts) <= len(start.parts)
    assert _without_parts(candidates(wanted, 0), start, pp, DRAW.runner) is start


def test_nothing_comes_of_a_draw_that_may_not_run_once(wanted):
    assert by_hypothesis(candidates(wanted, 0), DRAW) is None
