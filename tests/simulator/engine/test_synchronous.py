"""Synchronous scheduling (model runner V1): nothing is scheduled before it is known."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt

RUNS = [(1, 0), (1, 3), (2, 0), (4, 2)]


def synchronous(stages: int, drafts: int, release: str = "0.33", **options: object) -> Driver:
    core = engine(
        release,
        async_scheduling=False,
        model_runner=1,
        pipeline_parallel_size=stages,
        num_speculative_tokens=drafts,
        **options,
    )
    for name, stream in (("a", 1), ("b", 2), ("c", 1)):
        core.add_request(name, prompt(20, stream), 25)
    return Driver(core, accept=lambda row: row.num_computed_tokens % 3)


@pytest.mark.parametrize("release", ["0.32", "0.33"])
@pytest.mark.parametrize(("stages", "drafts"), RUNS)
def test_every_request_is_served_in_full(stages, drafts, release):
    driver = synchronous(stages, drafts, release).run()
    assert driver.outputs == {"a": 25, "b": 25, "c": 25}
    assert driver.core.idle


@pytest.mark.parametrize(("release", "times"), [("0.32", 0), ("0.33", 0), ("0.34", 6)])
def test_synchronous_outputs_are_hashed_without_drafts_from_0_34_on(release, times, monkeypatch):
    """What is hashed has been hashed by the schedule already, so that only the call itself can be seen."""
    core = engine(release, async_scheduling=False, groups=hybrid(8))
    core.add_request("a", prompt(8), 6)
    driver = Driver(core)
    cache, calls = core.scheduler.cache.cache_blocks, []

    def hash_blocks(request, num_tokens):
        calls.append(num_tokens)
        cache(request, num_tokens)

    while core.can_schedule:
        driver.schedule()
        monkeypatch.setattr(core.scheduler.cache, "cache_blocks", hash_blocks)
        driver.process()
        monkeypatch.undo()
    assert len(calls) == times


@pytest.mark.parametrize(("stages", "drafts"), RUNS)
def test_counts_are_exact_and_there_are_no_placeholders(stages, drafts):
    driver = synchronous(stages, drafts)
    while driver.advance():
        for name in ("a", "b", "c"):
            request = driver.core.request(name)
            if request is None:
                continue
            assert request.num_output_placeholders == 0
            assert request.num_computed_tokens - request.num_in_flight_tokens <= request.num_tokens
    for name in ("a", "b", "c"):
        positions = [row.num_computed_tokens for row in driver.rows(name)]
        assert positions == sorted(positions)


def test_a_request_is_in_flight_at_most_once_while_it_decodes():
    driver = synchronous(4, 2)
    while driver.advance():
        rows = [row.request for step in driver.core.inflight_steps for row in step.rows if row.is_final_or_decode]
        assert len(rows) == len(set(rows))


def test_no_decode_overshoots():
    driver = synchronous(1, 0).run()
    assert not any(delivered.ignored for delivered in driver.delivered)


def test_preempted_requests_come_back():
    driver = synchronous(2, 2, groups=hybrid(4), num_blocks=46).run()
    assert any(step.preempted for step in driver.steps)
    assert driver.outputs == {"a": 25, "b": 25, "c": 25}
