"""A wrong copy is told as what it was: between which blocks, what was meant, and whose bytes went where."""

import pytest
from judged import verifying
from one_rank import OTHERS
from small import CONV, LAYOUT, TEMPORAL

from stalerow.simulator.oracle.effect import ColumnCopy, StateCopy, apply_copy, region
from stalerow.simulator.oracle.explain.copies import unowned, wrong_copy
from stalerow.simulator.oracle.violations import Violation

SOURCE, TARGET, THEIRS, NOBODYS = 2, 3, OTHERS[0][1], 10
"""r0's state and where it is to go; r1's state; a free block."""


class Copied:
    """Step 2's precopy, which is to copy r0's two states from `SOURCE` to `TARGET`, and what a test makes of it."""

    def __init__(self) -> None:
        self.made, self.operation = verifying("precopy")
        self.meant = list(ColumnCopy("r0", 1, 0, 2).copies(LAYOUT, self.made.ledger))
        self.before = self.made.pages.copy()
        self.wanted, self.actual = self.before.copy(), self.before.copy()
        for copy in self.meant:
            apply_copy(LAYOUT, self.wanted, copy, self.before)

    def copies(self, *copies: StateCopy) -> None:
        for copy in copies:
            apply_copy(LAYOUT, self.actual, copy, self.before)

    def does(self, *copies: StateCopy) -> list[Violation]:
        self.copies(*copies)
        return self.told()

    def told(self) -> list[Violation]:
        evidence = self.made.evidence(self.wanted)
        return list(wrong_copy(evidence, self.operation, self.meant, self.before, self.actual))


def both(source: int, target: int, bias: int = 0) -> tuple[StateCopy, StateCopy]:
    return StateCopy("r0", CONV, source, target, bias), StateCopy("r0", TEMPORAL, source, target, 0)


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        (THEIRS, TARGET, "cross-request copy"),
        (SOURCE, THEIRS, "cross-request copy"),
        (THEIRS, NOBODYS, "cross-request copy"),
        (SOURCE, NOBODYS, "use after free"),
        (SOURCE, 0, "null block write"),
        (SOURCE, 4, "wrong position"),
    ],
)
def test_a_copy_between_other_blocks_names_them_and_those_that_were_meant(source, target, kind):
    found = Copied().does(*both(source, target))
    assert (found[0].kind, found[0].source_block, found[0].target_block) == (kind, source, target)
    assert f"copied block {source} (" in found[0].explanation
    assert "it was meant to copy r0's block 2 to block 3" in found[0].explanation
    assert len(found) == 1


def test_whose_bytes_they_are_is_said():
    (found,) = Copied().does(*both(THEIRS, TARGET))
    assert found.bytes_of == "r1 after 6 tokens"
    assert (found.request, found.target_owner) == ("r0", "r0 (group 0, column 2)")


def test_a_window_that_is_shifted_wrongly_is_told_by_its_rows():
    conv, temporal = both(SOURCE, TARGET, bias=1)
    found = Copied().does(conv, temporal)[0]
    assert found.kind == "wrong position"
    assert "copied block 2 (r0 (group 0, column 1)), shifted by 1 row, to block 3" in found.explanation
    assert "r0's window was meant to be shifted by 0 rows" in found.explanation


def test_a_copy_that_was_left_out_whole_is_at_the_wrong_position_and_a_part_is_torn():
    (whole,) = Copied().does()
    assert whole.kind == "wrong position"
    assert "left out 2 of 2 copies: r0's conv state 0 (group 0, layer 0) should have gone" in whole.explanation
    conv, _ = both(SOURCE, TARGET)
    (part,) = Copied().does(conv)
    assert part.kind == "torn copy"
    assert "left out 1 of 2 copies: r0's temporal state 1" in part.explanation


def test_bytes_of_no_block_are_torn():
    copied = Copied()
    copied.copies(*both(SOURCE, TARGET))
    copied.actual[0, TARGET, region(LAYOUT, TEMPORAL)] ^= 0x5A
    (found,) = copied.told()
    assert (found.kind, found.source_block) == ("torn copy", -1)
    assert "with bytes of no single block; r0's temporal state 1 (group 0, layer 0) was to be" in found.explanation


def test_a_page_that_nothing_was_to_touch_is_told_as_what_it_is():
    copied = Copied()
    copied.copies(*both(SOURCE, TARGET))
    copied.actual[0, NOBODYS, :] = copied.before[0, THEIRS, :]
    (found,) = copied.told()
    assert (found.kind, found.source_block, found.target_block) == ("use after free", THEIRS, NOBODYS)
    assert "no copy between them was meant" in found.explanation


def test_the_row_that_was_looked_up_is_named_by_slot():
    found = Copied().does(*both(SOURCE, 4))[0]
    assert "; looked up in slot " in found.explanation
    assert " for row 0 (r0)" in found.explanation


@pytest.mark.parametrize(
    ("source", "target", "block", "kind", "side"),
    [
        (2, 3, 2, "use after free", "from"),
        (2, 3, 3, "use after free", "to"),
        (0, 3, 0, "uninitialised read", "from"),
        (2, 0, 0, "null block write", "to"),
    ],
)
def test_a_block_that_is_not_the_requests_any_more_is_told_by_the_side_it_is_on(source, target, block, kind, side):
    copied = Copied()
    copied.made.ledger.owners.pop(block, None)
    copy = StateCopy("r0", TEMPORAL, source, target, 0)
    found = unowned(copied.made.evidence(), copied.operation, copy, block)
    owner = "nobody (a free block)" if block else "nobody (the null block)"
    assert (found.kind, found.source_block, found.target_block) == (kind, source, target)
    assert f"must copy r0's state {side} block {block}, which belongs to {owner} by now" in found.explanation


def test_a_table_that_was_gathered_again_is_named_where_rows_are_looked_up():
    made, operation = verifying("postprocess")
    meant = list(ColumnCopy("r0", 2, 1, 1).copies(LAYOUT, made.ledger))
    before = made.pages.copy()
    wanted, actual = before.copy(), before.copy()
    for copy in meant:
        apply_copy(LAYOUT, wanted, copy, before)
    apply_copy(LAYOUT, actual, StateCopy("r0", TEMPORAL, 4, 1, 0), before)
    told = "and the gathered table held step 1 by then"
    for by_slot, step, said in ((False, 3, True), (True, 3, False), (False, 2, False)):
        late = type(operation)(step=step, run=int, output=operation.output)
        made.rank.gathered_step, made.rank.align = 1, _Align(by_slot)
        found = next(wrong_copy(made.evidence(wanted), late, meant, before, actual))
        assert (told in found.explanation) is said


class _Align:
    def __init__(self, reads_slot_tables: bool) -> None:
        self.reads_slot_tables = reads_slot_tables
