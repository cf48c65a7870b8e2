"""A rank is judged after every launch: whatever its memory holds that it should not is found there, once."""

import numpy as np
import pytest
from judged import VERIFY, Judged, prefilled, verifying
from one_rank import BLOCKS, OTHERS
from small import new, step

from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.oracle.judge import damage_fingerprint

LAUNCHES = (
    *("free", "admit", "block_counts", "gather", "preprocess", "precopy"),
    *("indices", "forward", "sample", "post_update", "postprocess"),
)
NOBODYS = 11
"""A block that no request has."""


def test_a_healthy_step_is_silent_and_the_shadow_is_the_pool():
    made = prefilled()
    made.hand(VERIFY)
    made.run()
    assert made.found == []
    assert np.array_equal(made.judge.shadow, made.pages)
    assert made.pages.any()


@pytest.mark.parametrize("kind", LAUNCHES)
def test_a_byte_that_changes_is_found_at_that_launch_and_told_once(kind):
    made, head = verifying(kind)
    made.judge.before(head)
    made.rank.execute()
    made.pages[0, NOBODYS, -1] ^= 1
    made.judge.after(head)
    made.run()
    assert [(v.launch, v.during, v.target_block) for v in made.found] == [(kind, 2, NOBODYS)]


def test_a_copy_from_a_block_that_is_not_the_requests_any_more_is_found_before_it_is_compared():
    made, _ = verifying("precopy")
    made.ledger.owners.pop(BLOCKS[0][1])
    made.launch()
    assert {(v.kind, v.source_block) for v in made.found} == {("use after free", BLOCKS[0][1])}


@pytest.mark.parametrize(
    ("array", "kind"),
    [("num_computed", "rank divergence"), ("num_accepted", "stale slot"), ("total_len", "rank divergence")],
)
def test_a_wrong_number_of_an_output_is_blamed_on_the_launch_that_wrote_it(array, kind):
    made, head = verifying("post_update")
    made.rank.execute()
    getattr(made.rank.slots, array)[made.rank.slot_index("r0")] += 1
    made.judge.after(head)
    assert [(v.kind, v.launch, v.request) for v in made.found] == [(kind, "post_update", "r0")]


def test_an_output_in_a_slot_that_has_a_new_owner_is_one_violation():
    made, head = verifying("post_update")
    made.ledger.take_frees(step(3, finished=("r0",)))
    slot = made.rank.slot_index("r0")
    head.output.held[slot] = "r1"
    made.launch()
    assert [(v.kind, v.request) for v in made.found] == [("stale slot", "r0")]


def test_a_state_that_was_not_copied_is_found_by_the_copy_and_by_who_reads_it():
    made, head = verifying("precopy")
    before = made.pages.copy()
    made.rank.execute()
    made.pages[:] = before
    made.judge.after(head)
    made.run("sample")
    assert [(v.launch, v.kind) for v in made.found] == [
        ("precopy", "wrong position"),
        ("forward", "uninitialised read"),
        ("forward", "output divergence"),
    ]


def test_attention_blocks_must_be_zero_when_they_are_first_used():
    made = Judged()
    made.pages[0, OTHERS[1][0], 0] = 9
    made.judge.accept()
    made.hand(step(1, (VERIFY.rows[0],), new=(new("r0", ((1,), OTHERS[1])),)))
    made.run("sample")
    assert [(v.kind, v.target_block) for v in made.found if "is not zero" in v.explanation] == [
        ("uninitialised read", OTHERS[1][0])
    ]


def test_the_cache_must_hold_at_the_end_what_it_offers():
    made = prefilled()
    made.hand(VERIFY)
    made.run()
    offered = {2: CachedBlock(0, 8, "r0")}
    made.judge.final(offered)
    assert made.found == []
    made.judge.final({3: CachedBlock(0, 8, "r0")})
    assert [(v.kind, v.target_block) for v in made.found] == [("poisoned cache", 3)]


def test_what_was_refused_is_taken_as_it_is():
    made, _ = verifying("indices")
    made.pages[0, NOBODYS] = 5
    made.judge.accept()
    made.run()
    assert made.found == []


def test_a_digest_tells_a_byte_and_a_number_apart_from_a_healthy_run():
    def digest(change) -> bytes:
        made, _ = verifying("postprocess")
        change(made.rank)
        made.judge.accept()
        return made.judge.digest()

    def last_byte(rank) -> None:
        rank.pool.array[-1] ^= 1

    def a_column(rank) -> None:
        rank.slots.state_idx[1] += 1

    same = digest(lambda rank: None)
    assert len(same) == 16
    assert same == digest(lambda rank: None)
    assert len({same, digest(last_byte), digest(a_column)}) == 3


def test_damage_has_a_fingerprint_of_its_place_and_amount():
    damage = np.zeros((2, 3), np.int64)
    assert damage_fingerprint(damage) == 0
    prints = set()
    for place in range(6):
        damage[:] = 0
        damage.flat[place] = 7
        prints.add(damage_fingerprint(damage))
    assert len(prints) == 6
