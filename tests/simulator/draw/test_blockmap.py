"""Blocks that a launch touched, before and after it, with their owners; the rest by owner on one line."""

import pytest

from stalerow.simulator.draw.blockmap import before_and_after, held, named, owners_line, ranges, short
from stalerow.simulator.draw.finding import finding
from stalerow.simulator.draw.picture import text
from stalerow.simulator.draw.record import Owner, Write


@pytest.mark.parametrize(
    ("blocks", "said"), [([], ""), ([3], "3"), ([1, 2, 3, 4, 7, 9, 10], "1-4 7 9-10"), ([1, 3], "1 3")]
)
def test_runs_of_blocks_are_joined(blocks, said):
    assert ranges(blocks) == said


def test_owners_are_named_by_group_and_column():
    owners = Owner(request="r0", group=0, column=2), Owner(request="r1", group=1, column=0)
    assert named(owners) == "r0 g0 c2 and r1 g1 c0"
    assert named(()) == "nobody"


def test_what_is_held_is_said_in_few_words():
    assert short(Write(block=1, how="state", holds="a torn mixture")) == "torn mixture"
    assert short(Write(block=1, how="poison", holds="poison (never written since the block changed hands)")) == "poison"


def test_blocks_hold_what_was_written_last_before(seed_bug):
    found = finding(seed_bug)
    rank, number = found.event.rank, found.event.number
    before, after = held(seed_bug, rank, number - 1), held(seed_bug, rank, number)
    block = found.write.block
    assert after[block] == short(found.write)
    assert before[block] != after[block]
    assert {b: h for b, h in before.items() if after[b] != h} == {block: before[block]}
    assert held(seed_bug, rank, 0) == {}


def test_the_table_has_what_was_written_read_and_meant(seed_bug):
    found = finding(seed_bug)
    lines = text(before_and_after(seed_bug, found), 100).splitlines()
    rows = {line.split()[0]: line for line in lines[2:] if line.strip()}
    assert rows.keys() == {"6", "8", "11"}
    assert rows["11"].split()[1] == "!"
    assert "r4 g0 c3" in rows["11"]
    assert rows["8"].split()[1] == "read"
    assert rows["8"].rstrip().endswith("unchanged")
    assert rows["6"].split()[1] == "meant"


def test_every_block_of_the_rank_is_somebodys_or_free(seed_bug):
    found = finding(seed_bug)
    line = owners_line(seed_bug, found).plain
    assert line.startswith("blocks of rank 0: ")
    told = line.partition(": ")[2].split("; ")
    blocks = []
    for part in told:
        for run in part.split()[1:]:
            first, _, last = run.partition("-")
            blocks += range(int(first), int(last or first) + 1)
    assert {*blocks} == {*range(1, seed_bug.num_blocks)}
    assert told[-1].startswith("free ")
