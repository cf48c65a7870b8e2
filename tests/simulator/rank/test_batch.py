"""Rows of a batch: their order, and where each one's tokens begin."""

from stalerow.simulator.engine.step import ScheduledRow, Step
from stalerow.simulator.rank.batch import batch_order, query_start_loc


def row(request: str, tokens: int, drafts: int = 0) -> ScheduledRow:
    return ScheduledRow(request, tokens, drafts, 0, True)


def step(*rows: ScheduledRow) -> Step:
    return Step(1, rows, (), (), (), (), (), (), {}, {}, 0)


def test_verification_rows_then_decodes_then_prefills_by_length():
    made = step(row("long", 9), row("decode", 3), row("short", 2), row("verify", 3, 2), row("cut", 2, 1))
    assert [r.request for r in batch_order(made, 3)] == ["verify", "cut", "decode", "short", "long"]


def test_equal_rows_keep_the_schedulers_order():
    assert [r.request for r in batch_order(step(row("b", 3), row("a", 3)), 3)] == ["b", "a"]


def test_starts_are_sums_of_the_rows_before_and_repeat_the_total_past_the_last():
    starts = query_start_loc([row("a", 3), row("b", 1)], 5)
    assert starts.tolist() == [0, 3, 4, 4, 4]
    assert starts.dtype == "int32"
