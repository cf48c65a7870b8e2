"""A wrong read is told by the block it came from, what that holds and where the state is; so is a cache that lies."""

import dataclasses

import numpy as np
import pytest
from judged import prefilled, verifying
from one_rank import OTHERS

from stalerow.kernels.base.memory import POISON
from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.oracle.explain.reads import diverged, unzeroed, wrong_cache, wrong_reads
from stalerow.simulator.oracle.violations import Violation

CONV, TEMPORAL, KV = 0, 1, 2
"""Columns of a damage array."""
OWN, THEIRS, NOBODYS = 3, OTHERS[0][1], 10


class Read:
    """Step 2's forward over r0, which is to read its state from `OWN`."""

    def __init__(self, hit: bool = False) -> None:
        self.made, self.operation = verifying("forward")
        self.row = self.made.planner.plans[2].rows["r0"]
        if hit:
            self.row = dataclasses.replace(self.row, first_after_hit=True)

    def told(self, unit: int) -> Violation:
        damage = np.zeros((1, 3), np.int64)
        evidence = self.made.evidence()
        assert list(wrong_reads(evidence, self.operation, [self.row], damage, self.made.pages)) == []
        damage[0, unit] = 1
        (found,) = wrong_reads(evidence, self.operation, [self.row], damage, self.made.pages)
        assert (found.launch, found.step, found.request) == ("forward", 2, "r0")
        return found

    def named(self, block: int, unit: int = TEMPORAL) -> Violation:
        """What is told where the rank's indices name a block."""
        self.made.rank.state_indices[0, 0, 0] = block
        return self.told(unit)


def test_a_foreign_state_is_told_by_whose_it_is_and_where_the_own_one_is():
    found = Read().named(THEIRS)
    assert (found.kind, found.source_block, found.bytes_of) == ("cross-request copy", THEIRS, "r1 after 6 tokens")
    assert found.explanation == (
        "forward of step 2 on rank 0 reads row 0's state, r0's after 6 tokens, from block 8 (r1 (group 0, column 1)), "
        "which holds r1 after 6 tokens; the state is in block 3"
    )


@pytest.mark.parametrize(
    ("block", "kind"),
    [(0, "uninitialised read"), (NOBODYS, "use after free"), (1, "uninitialised read"), (2, "wrong position")],
)
def test_other_blocks_are_told_by_what_they_are(block, kind):
    found = Read().named(block)
    assert (found.kind, found.source_block) == (kind, block)


def test_a_state_that_was_damaged_in_its_own_block_is_torn():
    read = Read()
    read.made.pages[0, OWN, 10:] ^= 1
    found = read.told(TEMPORAL)
    assert (found.kind, found.source_block) == ("torn copy", OWN)
    assert "which holds a torn mixture" in found.explanation
    assert "the state is in" not in found.explanation


def test_a_count_that_shifts_the_window_is_told_by_its_rows():
    read = Read()
    read.made.rank.slots.num_accepted[read.made.rank.slot_index("r0")] = 2
    found = read.told(CONV)
    assert ", shifted by 1 row, which holds" in found.explanation
    assert found.explanation.endswith("; the shift should be 0 rows")


def test_an_index_that_is_no_block_is_told_by_the_states_own_place():
    assert Read().named(99).source_block == OWN


def test_the_first_read_after_a_prefix_hit_is_the_caches_fault():
    assert Read(hit=True).named(THEIRS).kind == "poisoned cache"
    assert Read(hit=True).told(KV).kind == "poisoned cache"


@pytest.mark.parametrize(
    ("block", "kind"), [(OTHERS[1][0], "cross-request copy"), (NOBODYS, "use after free"), (6, "wrong position")]
)
def test_foreign_keys_and_values_are_told_by_the_block_in_their_column(block, kind):
    read = Read()
    read.made.rank.tables.gathered[1][0, 0] = block
    found = read.told(KV)
    assert (found.kind, found.source_block, found.group) == (kind, block, 1)
    assert found.explanation.endswith("in column 0; its own is block 5")


def test_own_keys_and_values_have_been_overwritten():
    found = Read().told(KV)
    assert (found.kind, found.source_block) == ("wrong position", -1)
    assert "layer 0, positions 0 to 5) that something has overwritten in blocks of its own" in found.explanation


def unzeroed_after(change) -> list[Violation]:
    made, forward = verifying("forward")
    wanted = made.pages.copy()
    change(wanted)
    return list(unzeroed(made.evidence(wanted), forward, [11]))


def test_a_fresh_block_that_is_not_zero_is_told_by_what_is_left_in_it():
    def zeros(wanted):
        wanted[:, 11] = 0

    def another_state(wanted):
        wanted[:, 11] = wanted[:, THEIRS]

    def poison(wanted):
        wanted[:, 11] = POISON

    assert unzeroed_after(zeros) == []
    (state,) = unzeroed_after(another_state)
    assert (state.kind, state.target_block, state.bytes_of) == ("use after free", 11, "r1 after 6 tokens")
    (never,) = unzeroed_after(poison)
    assert (never.kind, never.bytes_of.split()[0]) == ("uninitialised read", "poison")


def test_an_output_that_differs_names_its_row():
    read = Read()
    found = diverged(0, read.operation, read.row)
    assert (found.kind, found.request) == ("output divergence", "r0")
    assert found.explanation == "r0's output of step 2 differs from the request run alone"


@pytest.mark.parametrize(
    ("block", "cached", "holds"),
    [
        (2, CachedBlock(0, 6, "r0"), None),
        (2, CachedBlock(0, 4, "r0"), "r0 after 6 tokens"),
        (8, CachedBlock(0, 6, "r0"), "r1 after 6 tokens"),
        (1, CachedBlock(0, 4, "r0"), "poison"),
        (5, CachedBlock(1, 4, "r0"), None),
    ],
)
def test_a_cached_block_must_hold_the_state_after_as_many_tokens_as_it_says(block, cached, holds):
    made = prefilled()
    found = list(wrong_cache(made.evidence(), made.pages, [(block, cached)]))
    if holds is None:
        assert found == []
    else:
        (told,) = found
        assert (told.kind, told.launch, told.target_block) == ("poisoned cache", "end of run", block)
        assert f"is cached as r0's state after {cached.num_tokens} tokens but holds {holds}" in told.explanation
