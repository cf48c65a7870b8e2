"""Sliding-window groups: blocks before the window are given up, and a hit needs the blocks of one window only."""

import pytest
from engine_driver import Driver, engine, prompt

from stalerow.simulator.engine import CachedBlock, EngineConfig, EngineCore, GroupConfig, Step, profile
from stalerow.simulator.engine.block_pool import BlockPool
from stalerow.simulator.engine.hits import HitSearch
from stalerow.simulator.engine.policies import HitPolicy
from stalerow.simulator.engine.reuse import ReusePolicy
from stalerow.simulator.engine.rules import CacheRules

SIZE, WINDOW = 8, 17


def windowed(window: int = WINDOW, marked: bool = True) -> tuple[GroupConfig, ...]:
    """A window and full attention, which has the drafter's layers if they are marked; else any group may have them."""
    return GroupConfig("attention", SIZE, window=window), GroupConfig("attention", SIZE, draft=marked)


def core_with(release: str = "0.34", **options: object) -> EngineCore:
    return engine(release, **({"groups": windowed(), "max_num_batched_tokens": 16} | options))


def lists(step: Step, request: str, group: int = 0) -> list[int]:
    return [block > 0 for block in step.block_lists[request][group]]


@pytest.mark.parametrize("drafts", [0, 2])
def test_blocks_before_the_window_of_what_is_settled_are_null_and_all_others_are_held(drafts):
    core = core_with(async_scheduling=False, num_speculative_tokens=drafts)
    core.add_request("a", prompt(70, 1), 30)
    for step in Driver(core).run().steps:
        for row in step.rows:
            held, full = lists(step, "a"), lists(step, "a", 1)
            before = max(row.num_computed_tokens - WINDOW + 1, 0) // SIZE
            assert held == [False] * before + [True] * (len(full) - before)
            assert all(full)


def test_tokens_in_flight_keep_their_windows():
    """A rejected draft rolls the count back: only processed outputs move the window."""
    core = core_with(pipeline_parallel_size=3)
    core.add_request("a", prompt(100, 1), 4)
    driver = Driver(core)
    first, second, third = (driver.schedule() for _ in range(3))
    assert [sum(lists(step, "a")) for step in (first, second, third)] == [2, 4, 6]
    driver.process()
    assert sum(lists(driver.schedule(), "a")) == 8
    driver.process()
    assert not all(lists(driver.schedule(), "a"))


def test_everything_comes_back():
    core = core_with(num_speculative_tokens=2, num_blocks=60)
    for index in range(4):
        core.add_request(f"r{index}", prompt(50, index), 20)
    Driver(core, accept=lambda row: row.num_drafts).run()
    assert core.num_free_blocks == 59


def hit(length: int, window: int = WINDOW, marked: bool = True, **options: object) -> tuple[int, list[bool]]:
    """Tokens that a second request starts with, which shares `length` tokens with one that has ended, and its list."""
    core = core_with(groups=windowed(window, marked), **options)
    core.add_request("first", prompt(90, 1), 2)
    driver = Driver(core).run()
    core.add_request("second", prompt(length, 1) + prompt(40, 2), 2)
    new = driver.run().admission("second")
    columns = new.num_computed_tokens // SIZE
    return new.num_computed_tokens, [block > 0 for block in new.block_ids[0][:columns]]


def test_a_hit_brings_the_blocks_of_one_window():
    assert hit(64, retention_interval=None) == (64, [False] * 6 + [True] * 2)
    assert hit(64, window=5, retention_interval=None) == (64, [False] * 7 + [True])


def test_a_hit_shorter_than_a_window_has_all_its_blocks():
    assert hit(16, retention_interval=None) == (16, [True] * 2)


def test_a_sparse_cache_keeps_the_window_at_the_prompt_s_end_only():
    """Retention 0: of the first prompt of 90 tokens the blocks before its last boundary, 88, can be hit."""
    assert hit(90, retention_interval=0) == (88, [False] * 9 + [True] * 2)
    assert hit(64, retention_interval=0)[0] == 0


def test_an_interval_keeps_a_window_for_each():
    assert hit(48, retention_interval=24) == (48, [False] * 4 + [True] * 2)
    assert hit(40, window=5, retention_interval=24)[0] == 24


def test_a_hit_that_gives_up_a_draft_block_needs_one_more():
    tokens, columns = hit(64, release="0.32", num_speculative_tokens=1, retention_interval=None)
    assert tokens == 56
    assert columns == [False] * 5 + [True] * 2


OLD = {"release": "0.32", "num_speculative_tokens": 1, "marked": False}
"""A hit gives up its last block: what is kept reaches one block past where it ends."""


def test_what_is_kept_for_hits_that_give_up_a_block_ends_one_block_later():
    assert hit(45, retention_interval=32, **OLD) == (32, [False] * 2 + [True] * 2)
    assert hit(90, retention_interval=0, **OLD) == (80, [False] * 8 + [True] * 2)


def test_a_hit_ends_where_hits_of_all_groups_may_end():
    """Attention blocks of 16 tokens beside windows of 8: 24 tokens of window blocks alone are no hit of 24."""
    config = EngineConfig(
        groups=(GroupConfig("attention", 8, window=9), GroupConfig("attention", 16)),
        num_blocks=20,
        retention_interval=0,
    )
    pool = BlockPool(20, 2, ReusePolicy())
    search = HitSearch(config, CacheRules.of(config, profile("0.34")), pool, HitPolicy())
    prefixes = [101, 102, 103, 104]
    for block, column in zip(pool.take(3), range(3)):
        pool.register(block, prefixes[column], CachedBlock(0, 8 * (column + 1), "a"))
    for block, column in zip(pool.take(2), (1, 3)):
        pool.register(block, prefixes[column], CachedBlock(1, 8 * (column + 1), "a"))
    found = search.longest(prefixes, 32)
    assert (found.num_tokens, found.blocks) == (16, ((0, 2), (4,)))


def test_a_request_may_be_longer_than_the_pool_has_blocks_for_without_windows():
    def admitted(window: int) -> bool:
        groups = (GroupConfig("attention", SIZE, window=window),)
        core = engine("0.34", groups=groups, num_blocks=12, max_num_batched_tokens=16, max_model_len=256)
        core.add_request("a", prompt(150, 1), 2)
        return Driver(core).run().outputs.get("a") == 2

    assert admitted(WINDOW)
    assert not admitted(0)


@pytest.mark.parametrize("window", [-1, 4])
def test_a_window_that_cannot_be_is_refused(window):
    with pytest.raises(ValueError, match=rf"window {window} of a group of kind"):
        GroupConfig("recurrent" if window > 0 else "attention", SIZE, window=window)
