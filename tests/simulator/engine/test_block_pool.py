"""The block pool: order of reuse, references, prefix hashes."""

import pytest

from stalerow.simulator.engine.block_pool import NULL_BLOCK, BlockPool
from stalerow.simulator.engine.policies import ReusePolicy
from stalerow.simulator.engine.step import CachedBlock


def pool(num_blocks: int = 8) -> BlockPool:
    return BlockPool(num_blocks, num_groups=2, reuse=ReusePolicy())


def entry(num_tokens: int = 16, group: int = 0, request: str = "a") -> CachedBlock:
    return CachedBlock(group, num_tokens, request)


def test_a_fresh_pool_hands_out_blocks_in_order_and_never_the_null_block():
    blocks = pool()
    assert blocks.take(7) == [1, 2, 3, 4, 5, 6, 7]
    assert blocks.num_free_blocks == 0


def test_taking_more_than_is_free_is_an_error_and_takes_nothing():
    blocks = pool()
    with pytest.raises(ValueError, match="8 blocks wanted, 7 free"):
        blocks.take(8)
    assert blocks.num_free_blocks == 7


def test_unhashed_blocks_are_reused_last_in_first_out():
    blocks = pool()
    taken = blocks.take(4)
    blocks.release(reversed(taken))
    assert blocks.take(4) == [4, 3, 2, 1]


def test_hashed_blocks_are_reused_after_everything_else_and_oldest_first():
    blocks = pool()
    taken = blocks.take(4)
    blocks.register(taken[0], 10, entry())
    blocks.register(taken[2], 11, entry())
    blocks.release([taken[0]])
    blocks.release([taken[2], taken[1], taken[3]])
    assert blocks.free_queue == (2, 4, 5, 6, 7, 1, 3)


def test_the_null_block_is_neither_held_nor_released():
    blocks = pool()
    blocks.hold([NULL_BLOCK])
    blocks.release([NULL_BLOCK, NULL_BLOCK])
    assert NULL_BLOCK not in blocks.free_queue
    assert blocks.ref_count(NULL_BLOCK) == 0


def test_a_block_is_free_only_after_its_last_reference():
    blocks = pool()
    (block,) = blocks.take(1)
    blocks.hold([block])
    blocks.release([block])
    assert block not in blocks.free_queue
    blocks.release([block])
    assert block in blocks.free_queue


def test_a_hit_takes_a_cached_block_out_of_the_free_queue():
    blocks = pool()
    (block,) = blocks.take(1)
    blocks.register(block, 10, entry())
    blocks.release([block])
    assert blocks.lookup(10, [0]) == [block]
    blocks.hold([block])
    assert block not in blocks.free_queue
    assert blocks.ref_count(block) == 1


def test_a_lookup_needs_a_block_in_every_group():
    blocks = pool()
    first, second = blocks.take(2)
    blocks.register(first, 10, entry(group=0))
    assert blocks.lookup(10, [0, 1]) is None
    blocks.register(second, 10, entry(group=1))
    assert blocks.lookup(10, [0, 1]) == [first, second]


def test_of_equal_prefixes_the_first_cached_block_is_hit():
    blocks = pool()
    first, second = blocks.take(2)
    blocks.register(first, 10, entry())
    blocks.register(second, 10, entry())
    assert blocks.lookup(10, [0]) == [first]
    blocks.forget(first)
    assert blocks.lookup(10, [0]) == [second]


def test_handing_out_a_cached_block_evicts_all_its_hashes():
    blocks = pool(2)
    (block,) = blocks.take(1)
    blocks.register(block, 10, entry(16))
    blocks.register(block, 9, entry(8))
    blocks.release([block])
    assert blocks.take(1) == [block]
    assert blocks.lookup(10, [0]) is None
    assert blocks.lookup(9, [0]) is None
    assert blocks.cached_blocks() == {}


def test_moved_hashes_keep_their_boundary_and_their_author():
    blocks = pool()
    source, destination = blocks.take(2)
    blocks.register(source, 10, entry(24, request="writer"))
    blocks.move_hashes(source, destination)
    assert blocks.lookup(10, [0]) == [destination]
    assert blocks.cached_blocks() == {destination: entry(24, request="writer")}


def test_snapshots_of_the_cache_do_not_change_later():
    blocks = pool()
    (block,) = blocks.take(1)
    blocks.register(block, 10, entry())
    before = blocks.cached_blocks()
    assert blocks.cached_blocks() is before
    blocks.forget(block)
    assert dict(before) == {block: entry()}
    with pytest.raises(TypeError):
        before[block] = entry()  # type: ignore[index]
