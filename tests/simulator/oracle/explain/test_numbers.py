"""Sentences are right whatever the number is."""

import pytest

from stalerow.simulator.oracle.explain.numbers import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2, ("row",), "2 rows"),
        (1, ("copy", "copies"), "1 copy"),
        (3, ("copy", "copies"), "3 copies"),
    ],
)
def test_numbers_agree_with_what_they_count(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
