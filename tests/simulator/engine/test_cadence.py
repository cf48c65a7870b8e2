"""`prefill_schedule_interval`: decodes run alone for some steps after one that carried prefill."""

import itertools

import pytest
from engine_driver import Driver, engine, hybrid, prompt


def beside_a_decode(interval: int, release: str = "0.34", **options: object) -> Driver:
    """A long prompt that comes when another request decodes; no prefix is shared."""
    core = engine(release, groups=hybrid(8), max_num_batched_tokens=12, prefill_schedule_interval=interval, **options)
    core.add_request("decodes", prompt(6, 1), 40)
    driver = Driver(core)
    while driver.outputs.get("decodes", 0) < 4:
        driver.advance()
    core.add_request("long", prompt(40, 2), 2)
    return driver


def steps_of(driver: Driver, request: str) -> list[int]:
    executed = [step for step in driver.steps if step.rows]
    return [i for i, step in enumerate(executed) if any(row.request == request for row in step.rows)]


def gaps(driver: Driver) -> set[int]:
    chunks = steps_of(driver.run(), "long")[: len(driver.chunks("long"))]
    return {after - before for before, after in itertools.pairwise(chunks)}


def test_chunks_are_an_interval_apart_while_another_request_decodes():
    assert gaps(beside_a_decode(4)) == {4}
    assert gaps(beside_a_decode(1)) == {1}


@pytest.mark.parametrize(("release", "expected"), [("0.32", {1}), ("0.33", {4}), ("0.34", {4})])
def test_up_to_0_32_only_data_parallel_engines_have_an_interval(release, expected):
    assert gaps(beside_a_decode(4, release)) == expected


def test_nothing_is_held_without_a_decode_to_run_instead():
    core = engine("0.34", groups=hybrid(8), max_num_batched_tokens=8, prefill_schedule_interval=5)
    core.add_request("long", prompt(40), 1)
    driver = Driver(core).run()
    assert steps_of(driver, "long")[:5] == [0, 1, 2, 3, 4]


def test_a_queue_that_could_not_be_drained_ends_the_holding():
    driver = beside_a_decode(4, max_num_seqs=2)
    driver.core.add_request("waits", prompt(8, 3), 2)
    assert 1 in gaps(driver)


def test_an_interval_below_one_is_refused():
    with pytest.raises(ValueError, match="prefill_schedule_interval 0: expected 1 or more; use 1 to switch it off"):
        engine(prefill_schedule_interval=0)
