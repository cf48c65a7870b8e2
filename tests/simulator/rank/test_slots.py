"""Slots of a worker: given back, given out again, and told apart by their generation."""

import pytest

from stalerow.simulator.errors import BrokenRule
from stalerow.simulator.rank.slots import SlotTable


def last(free: list[int]) -> int:
    return free.pop()


def test_the_slot_that_was_freed_last_is_given_out_first():
    table = SlotTable(3)
    assert [table.take(name, last) for name in ("a", "b", "c")] == [2, 1, 0]
    table.release("b", 4)
    table.release("a", 5)
    assert table.take("d", last) == 2
    assert table.holders() == {0: "c", 2: "d"}
    assert table.freed_at == {1: 4, 2: 5}


def test_every_free_bumps_the_generation_of_its_slot_alone():
    table = SlotTable(2)
    table.take("a", last)
    assert table.release("a", 1) == 1
    assert table.generation.tolist() == [0, 1]
    assert table.release("a", 2) is None
    assert table.generation.tolist() == [0, 1]


def test_more_requests_than_slots_break_a_rule_of_the_engine():
    table = SlotTable(1)
    table.take("a", last)
    with pytest.raises(BrokenRule, match="no free slot for b"):
        table.take("b", last)
