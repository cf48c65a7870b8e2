"""Sentences on a terminal: no word is broken and nothing is lost, whatever the width."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stalerow.simulator.draw.prose import say, wrapped

WORDS = st.lists(st.text("ab,(3", min_size=1, max_size=9), min_size=1, max_size=40).map(" ".join)


@given(WORDS, st.integers(12, 90), st.integers(0, 4))
def test_lines_fit_and_hold_every_word(line, width, indent):
    parts = wrapped(" " * indent + line, width)
    assert " ".join(parts).split() == line.split()
    assert all(len(part) <= width or len(part.split()) == 1 for part in parts)


@pytest.mark.parametrize(("width", "inner"), [(40, 2), (80, 10)])
def test_an_event_goes_on_under_its_beginning_where_there_is_room(width, inner):
    first, *others = wrapped("engine    " + "schedules step 1: " * 9, width, 10)
    assert first.startswith("engine    schedules")
    assert {len(part) - len(part.lstrip()) for part in others} == {inner}


def test_a_path_stays_whole():
    path = "failures/" + "x" * 60 + ".json"
    assert path in wrapped(f"saved in {path} just now", 40)[1]


@pytest.mark.parametrize(("terminal", "lines"), [(True, 3), (False, 1)])
def test_only_a_terminal_breaks_lines(terminal, lines):
    out = Console(file=io.StringIO(), width=40, force_terminal=terminal, color_system=None)
    say(out, "word " * 20)
    assert len(out.file.getvalue().splitlines()) == lines
