"""What a launch left in memory is read off the bytes: which blocks, whose they are and where they were before."""

import numpy as np
import pytest
from judged import prefilled, verifying
from one_rank import OTHERS
from small import CONV, LAYOUT, TEMPORAL

from stalerow.kernels.base.memory import POISON
from stalerow.simulator.draw.record import Move
from stalerow.simulator.draw.writes import Reader, changed_blocks, filled, moves_of
from stalerow.simulator.oracle.effect import ColumnCopy, StateCopy, apply_copy
from stalerow.simulator.oracle.explain.decode import Decoder

OWN, TARGET, THEIRS, NOBODYS = 2, 3, OTHERS[0][1], 10


@pytest.fixture
def at():
    """A rank before the precopy of its second step, a reader of its pool, and its pages."""
    made, _ = verifying("precopy")
    return made, Reader(LAYOUT, Decoder(made.planner, LAYOUT)), made.pages.copy()


def test_blocks_change_where_a_byte_differs_on_any_layer():
    before = np.zeros((2, 4, 8), np.uint8)
    now = before.copy()
    now[1, 2, 7], now[0, 0, 0] = 1, 1
    assert changed_blocks(before, now) == [0, 2]


def test_fills_are_as_they_were_meant_or_strays():
    made = filled([3, 5], [3, 4], POISON)
    assert [(w.block, w.how, w.asked) for w in made] == [(3, "poison", True), (4, "poison", True), (5, "stray", False)]
    assert filled([1], [1], 0)[0].holds == "zeros"


def test_copies_of_a_groups_states_are_one_move_with_the_largest_shift():
    copies = [StateCopy("r0", CONV, 2, 3, 1), StateCopy("r0", TEMPORAL, 2, 3, 0), StateCopy("r0", TEMPORAL, 4, 3, 0)]
    assert moves_of(copies) == (
        Move(request="r0", group=0, source=2, target=3, bias=1),
        Move(request="r0", group=0, source=4, target=3),
    )


def after(pages: np.ndarray, *copies: StateCopy) -> np.ndarray:
    now = pages.copy()
    for copy in copies:
        apply_copy(LAYOUT, now, copy, pages)
    return now


def whole(source: int, target: int) -> tuple[StateCopy, StateCopy]:
    return StateCopy("r0", CONV, source, target, 0), StateCopy("r0", TEMPORAL, source, target, 0)


def test_a_copy_that_was_meant_names_its_source(at):
    made, reader, pages = at
    meant = list(ColumnCopy("r0", 1, 0, 2).copies(LAYOUT, made.ledger))
    (write,) = reader.states_copied(pages, after(pages, *meant), meant, made.ledger.owners)
    assert (write.block, write.source, write.how, write.asked, write.group) == (TARGET, OWN, "copy", True, 0)
    assert write.holds == "r0 after 6 tokens"


def test_a_copy_from_a_foreign_block_or_to_one_is_found_too(at):
    made, reader, pages = at
    meant = list(ColumnCopy("r0", 1, 0, 2).copies(LAYOUT, made.ledger))
    (foreign,) = reader.states_copied(pages, after(pages, *whole(THEIRS, TARGET)), meant, made.ledger.owners)
    assert (foreign.block, foreign.source, foreign.holds) == (TARGET, THEIRS, "r1 after 6 tokens")
    (stray,) = reader.states_copied(pages, after(pages, *whole(OWN, NOBODYS)), meant, made.ledger.owners)
    assert (stray.block, stray.source, stray.asked) == (NOBODYS, OWN, False)


def test_bytes_of_no_block_are_a_stray(at):
    made, reader, pages = at
    now = pages.copy()
    now[0, NOBODYS] ^= 0x5A
    (write,) = reader.states_copied(pages, now, [], made.ledger.owners)
    assert (write.how, write.source, write.holds) == ("stray", -1, "bytes of no single block")


def test_pages_copied_whole_are_told_from_others(at):
    _, reader, pages = at
    now = pages.copy()
    now[:, NOBODYS] = pages[:, THEIRS]
    copied, other = reader.pages_copied(now, [NOBODYS, OWN], [(THEIRS, NOBODYS)])
    assert (copied.how, copied.source, copied.holds, copied.asked) == ("copy", THEIRS, "r1 after 6 tokens", True)
    assert (other.how, other.source, other.asked) == ("stray", -1, False)


def test_what_a_forward_wrote_is_told_by_its_owners_group():
    made = prefilled()
    reader = Reader(LAYOUT, Decoder(made.planner, LAYOUT))
    found = reader.forwarded(made.pages, [0, OWN, 5, THEIRS, NOBODYS], made.ledger.owners, ["r0"])
    assert [(w.block, w.how, w.asked) for w in found] == [
        (0, "pad", False),
        (OWN, "state", True),
        (5, "kv", True),
        (THEIRS, "state", False),
        (NOBODYS, "stray", False),
    ]


@pytest.mark.parametrize(
    ("block", "holds"),
    [
        (OWN, "r0 after 6 tokens"),
        (THEIRS, "r1 after 6 tokens"),
        (5, "KV of r0, positions 0 to 3"),
        (6, "KV of r0, positions 4 to 5"),
        (1, "poison (never written since the block changed hands)"),
    ],
)
def test_a_block_holds_what_its_owners_group_reads_in_it(block, holds):
    made = prefilled()
    reader = Reader(LAYOUT, Decoder(made.planner, LAYOUT))
    assert reader.holds(made.pages, block, made.ledger.owners[block]) == holds
