"""Every kind of violation has its page, and the page says what a reader needs, in order."""

import re

import pytest

from stalerow.simulator.oracle.kinds import KINDS, PAGES

PARTS = ["What it means.", "Usual cause.", "Public bugs that looked like this.", "Look at next."]


def test_there_is_a_page_for_every_kind_and_for_nothing_else():
    assert sorted(PAGES) == sorted(KINDS)
    assert len({*KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_its_four_parts_each_with_something_to_say(kind):
    said = re.split(r"\*\*(.+?)\*\*", PAGES[kind])[1:]
    assert said[::2] == PARTS
    assert all(len(text.split()) > 3 for text in said[1::2])


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_words_that_can_stand_in_a_sentence_and_on_a_command_line(kind):
    assert re.fullmatch(r"[a-z-]+( [a-z-]+)*", kind)


def test_pages_tell_kinds_apart():
    assert len({*PAGES.values()}) == len(KINDS)
