"""Evidence is a rank as it stood after a launch: its own tables, numbers and binding, on the host."""

import numpy as np
import pytest
from judged import VERIFY, Judged, prefilled
from one_rank import BLOCKS

from stalerow.kernels.base.binding import Cache
from stalerow.kernels.sets import kernel_set
from stalerow.simulator.oracle.explain.evidence import evidence


def test_it_holds_the_ranks_own_tables_and_numbers():
    made = prefilled()
    found, slot = made.evidence(), made.rank.slot_index("r0")
    assert (found.rank, found.layout, found.gathered_step) == (0, made.rank.layout, 1)
    assert found.persistent[0][slot, :4].tolist() == found.gathered[0][0, :4].tolist() == list(BLOCKS[0])
    assert found.state_indices.shape == (1, made.rank.max_reqs, 3)
    assert found.num_accepted[slot] == 1
    assert np.array_equal(found.wanted, made.pages)


def test_nothing_has_been_gathered_before_the_first_batch():
    assert Judged().evidence().gathered_step is None


@pytest.mark.parametrize(("name", "by_slot"), [("reference:req-idx", True), ("reference:batch-row", False)])
def test_it_says_which_tables_the_copy_kernels_look_up(name, by_slot):
    made = Judged()
    made.rank.align = kernel_set(name).align
    assert made.evidence().by_slot is by_slot


def test_a_binding_is_dead_once_the_cache_is_another_one():
    made = prefilled()
    made.hand(VERIFY)
    made.run()
    assert not made.evidence().dead_binding
    rank = made.rank
    rank.cache = Cache(rank.layout, rank.pool, rank.tables, cache_id=1)
    assert evidence(rank, made.planner, made.ledger, made.pages).dead_binding
