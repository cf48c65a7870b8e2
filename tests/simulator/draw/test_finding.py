"""What every screen names first, read off a record."""

import msgspec

from stalerow.simulator.draw.finding import finding
from stalerow.simulator.draw.record import Executed


def test_the_seed_bug_is_named_completely(seed_bug):
    found = finding(seed_bug)
    assert (found.meant, found.other, found.row, found.table) == ("r3", "r4", 0, 7)
    assert found.where == "postprocess of step 6 during step 8 on rank 0"
    assert found.lookup == "table row 0 was r3's in step 6; in step 7's table row 0 is r4's"
    assert (found.move.source, found.move.target) == (8, 6)
    assert found.write.block == found.violation.target_block != found.move.target


def test_who_sits_in_the_row_is_read_off_the_table_and_not_off_the_blocks(seed_bug):
    events = tuple(
        msgspec.structs.replace(e, what=msgspec.structs.replace(e.what, owners=()))
        if isinstance(e.what, Executed)
        else e
        for e in seed_bug.events
    )
    assert finding(msgspec.structs.replace(seed_bug, events=events)).other == "r4"


def test_a_clean_run_has_none(fixed):
    assert finding(fixed) is None
