"""Limits on how many run and how long a chunk may be, beside the ones that the rest of the engine's tests use."""

import pytest
from engine_driver import Driver, engine, hybrid, prompt


def crowd(count: int = 4, length: int = 64, **options: object) -> Driver:
    core = engine("0.33", **options)
    for index in range(count):
        core.add_request(f"r{index}", prompt(length, index + 1), 2)
    return Driver(core)


def test_no_more_requests_run_than_may_be_active_though_the_ranks_have_slots():
    driver = crowd(max_num_seqs=4, max_num_active_seqs=2, max_num_batched_tokens=512)
    driver.schedule()
    assert driver.core.running == ("r0", "r1")
    assert driver.core.waiting == ("r2", "r3")
    driver.run()
    assert len(driver.reasons) == 4


@pytest.mark.parametrize("most", [0, 5])
def test_more_active_requests_than_slots_are_refused(most):
    with pytest.raises(ValueError, match=f"max_num_active_seqs {most}: expected 1 to max_num_seqs 4"):
        engine(max_num_seqs=4, max_num_active_seqs=most)


def test_an_adaptive_threshold_is_never_below_a_fair_share_of_the_budget():
    options = {"groups": hybrid(8), "long_prefill_token_threshold": 8, "max_num_batched_tokens": 96}
    fixed = crowd(**options).run()
    fair = crowd(**options, long_prefill_token_threshold_adaptive=True).run()
    assert fixed.chunks("r0")[0] == 8
    assert fair.chunks("r0")[0] == 96 // 4


def test_an_adaptive_threshold_never_falls_below_the_fixed_one():
    options = {"groups": hybrid(8), "long_prefill_token_threshold": 32, "max_num_batched_tokens": 96}
    assert crowd(**options, long_prefill_token_threshold_adaptive=True).run().chunks("r0")[0] == 32
