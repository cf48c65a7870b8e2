"""A run kept event by event: what was said, how things stood after it, and where an error ended it."""

import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.film import Film, filmed
from stalerow.simulator.errors import UsageError
from stalerow.simulator.subject.subject import Subject

SCHEDULE = catalogue()["stale-row"].schedule
FAULTY = Subject(kernels="reference:batch-row")


@pytest.fixture(scope="module")
def film():
    return filmed(FAULTY.run, SCHEDULE)


def test_there_is_a_frame_for_every_event_with_a_part_for_the_engine_and_every_rank(film):
    frames, outcome, error = film
    assert error is None
    assert outcome.digest == FAULTY.run(SCHEDULE).digest
    assert {len(frame.parts) for frame in frames} == {1 + SCHEDULE.pipeline.pp}
    assert {frame.actor for frame in frames} == {"engine", "host0", "host1", "device0", "device1", "side"}
    assert all(frame.lines for frame in frames)


def test_a_step_has_been_run_once_every_rank_has(film):
    frames, outcome, _ = film
    ran = [frame.ran for frame in frames]
    assert ran == sorted(ran)
    assert ran[0] == 0
    assert ran[-1] >= outcome.steps - 1
    first = ran.index(1)
    assert any("forward" in line for line in frames[first].lines)
    assert frames[first].actor == "device1"


def test_a_violation_is_in_the_frame_that_it_was_found_in(film):
    frames, outcome, _ = film
    bad = [frame for frame in frames if frame.violation]
    assert bad[0].lines[0].startswith("device0   step 8: postprocess of step 6")
    assert outcome.violations[0].explanation in bad[0].lines[1]


def test_equal_texts_are_kept_once(film):
    frames, _, _ = film
    parts = [part for frame in frames for part in frame.parts]
    assert len({id(part) for part in parts}) == len({*parts}) < len(parts) / 2


class Ends(Exception):
    """Ends a run."""


def test_what_led_to_an_error_is_kept(monkeypatch):
    calls = Film.__call__

    def ending(self, *event):
        calls(self, *event)
        if len(self.frames) == 5:
            raise Ends

    monkeypatch.setattr(Film, "__call__", ending)
    frames, outcome, error = filmed(FAULTY.run, SCHEDULE)
    assert (len(frames), outcome) == (5, None)
    assert isinstance(error, Ends)


def test_a_mistake_before_the_first_event_leaves_none():
    frames, outcome, error = filmed(Subject(kernels="no-such-kernels").run, SCHEDULE)
    assert (frames, outcome) == ([], None)
    assert isinstance(error, UsageError)
