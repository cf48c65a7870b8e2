"""`cache_aware_admission_window`: of the first requests that wait, those with a cached prefix are admitted first."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt

LEADER, COLD, WARM = prompt(40, 1), prompt(40, 2), prompt(40, 1)


def admitted(*waiting: tuple[str, list[int]], release: str = "0.34", **options: object) -> list[str]:
    """Who is admitted, in order, once the leader, whose prompt stays cached, has ended; one request runs at a time."""
    options = {"cache_aware_admission_window": 4, "cache_aware_admission_threshold": 0.0} | options
    core = engine(
        release, groups=hybrid(8), max_num_seqs=1, max_num_batched_tokens=8, retention_interval=None, **options
    )
    core.add_request("leader", LEADER, 3)
    driver = Driver(core)
    while not driver.outputs.get("leader"):
        driver.advance()
    for name, tokens in waiting:
        core.add_request(name, tokens, 2)
    return [new.request for step in driver.run().steps for new in step.new][1:]


BOTH = ("cold", COLD), ("warm", WARM)


def test_a_cached_prefix_goes_before_an_earlier_arrival():
    assert admitted(*BOTH) == ["warm", "cold"]
    assert admitted(*BOTH, cache_aware_admission_window=0) == ["cold", "warm"]


@pytest.mark.parametrize("release", ["0.32", "0.33"])
def test_older_releases_have_no_window(release):
    assert admitted(*BOTH, release=release) == ["cold", "warm"]


def test_the_window_is_of_those_that_wait_now():
    """The third comes into a window of two once the first is admitted."""
    three = (("cold", COLD), ("colder", prompt(40, 3)), ("warm", WARM))
    assert admitted(*three, cache_aware_admission_window=2) == ["cold", "warm", "colder"]
    assert admitted(*three, cache_aware_admission_window=3) == ["warm", "cold", "colder"]


def test_a_pool_with_room_leaves_the_order_alone():
    assert admitted(*BOTH, cache_aware_admission_threshold=0.9) == ["cold", "warm"]


def test_the_longer_prefix_first_and_arrival_decides_between_equals():
    some, more = LEADER[:16] + prompt(24, 5), LEADER[:32] + prompt(8, 6)
    assert admitted(("cold", COLD), ("some", some), ("more", more)) == ["more", "some", "cold"]
    assert admitted(("x", COLD), ("y", prompt(40, 3))) == ["x", "y"]


def test_priorities_and_an_engine_without_a_cache_know_no_window():
    assert admitted(*BOTH, policy="priority") == ["cold", "warm"]
    assert admitted(*BOTH, enable_prefix_caching=False) == ["cold", "warm"]


def test_a_preempted_request_keeps_its_place():
    """Nothing of it is in flight in a synchronous engine, so that it may come back at once."""
    core = engine(
        "0.34",
        groups=hybrid(8),
        max_num_seqs=1,
        cache_aware_admission_window=4,
        cache_aware_admission_threshold=0.0,
        retention_interval=None,
        async_scheduling=False,
    )
    core.add_request("leader", LEADER, 3)
    driver = Driver(core).run()
    core.add_request("cold", COLD[:10], 6)
    while not driver.outputs.get("cold"):
        driver.advance()
    core.add_request("warm", WARM, 2)
    core.scheduler._preempt(core.scheduler.running.pop())
    resumed = [new.request for step in driver.run().steps for new in step.new]
    assert resumed == ["leader", "cold", "cold", "warm"]


def test_the_order_stays_while_prefill_is_held_back():
    core = engine(
        "0.34",
        groups=hybrid(8),
        prefill_schedule_interval=6,
        cache_aware_admission_window=4,
        cache_aware_admission_threshold=0.0,
        retention_interval=None,
    )
    core.add_request("leader", LEADER, 3)
    driver = Driver(core).run()
    core.add_request("decodes", prompt(6, 4), 40)
    while not driver.outputs.get("decodes"):
        driver.advance()
    core.add_request("cold", COLD, 2)
    core.add_request("warm", WARM, 2)
    driver.schedule()
    assert tuple(core.waiting) == ("cold", "warm")
    admitted = [new.request for step in driver.run().steps for new in step.new]
    assert admitted[2:] == ["warm", "cold"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_aware_admission_window": -1}, "cache_aware_admission_window -1: expected 0 or more; use 0"),
        (
            {"cache_aware_admission_threshold": 1.5},
            r"cache_aware_admission_threshold 1.5: expected a fraction in \[0, 1\]",
        ),
    ],
)
def test_a_window_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        engine(**options)
