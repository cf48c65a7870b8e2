"""Data that no longer fits: what fits is used, and every field that does not is named."""

import msgspec
import pytest

from stalerow.simulator.campaign.salvage import salvage
from stalerow.simulator.errors import UsageError


class Part(msgspec.Struct, frozen=True):
    size: int
    name: str = "plain"


class Whole(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    mode: str = "fast"
    extra: Part | None = None


def read(data) -> tuple[Whole, list[str]]:
    problems: list[str] = []
    return salvage(data, Whole, "", problems, "old.json"), problems


def test_what_fits_is_read_without_a_word():
    made, problems = read({"parts": [{"size": 1}], "extra": {"size": 2, "name": "x"}})
    assert made == Whole((Part(1),), extra=Part(2, "x"))
    assert problems == []


def test_an_unknown_field_is_left_out_and_named_with_its_place():
    made, problems = read({"parts": [{"size": 1}, {"size": 2, "colour": 3}], "extra": None})
    assert made == Whole((Part(1), Part(2)))
    assert problems == ["parts[1].colour is not known to this release: left out"]


def test_a_field_that_no_longer_fits_falls_back_to_its_default():
    made, problems = read({"parts": [], "mode": 5})
    assert made.mode == "fast"
    (said,) = problems
    assert said.startswith("mode is 5, which no longer fits")
    assert said.endswith("its default is used")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "old.json: parts is missing and has no default"),
        ({"parts": [{"size": "big"}]}, r"old.json: parts\[0\].size no longer fits"),
        ({"parts": 3}, "old.json: parts no longer fits: expected a list, got 3"),
        ({"parts": [7]}, r"old.json: parts\[0\] is 7: expected an object"),
        ([], r"old.json: file is \[\]: expected an object"),
    ],
)
def test_what_cannot_be_done_without_is_one_error(data, says):
    with pytest.raises(UsageError, match=says):
        read(data)
