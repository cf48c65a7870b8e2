"""Ownership on a rank's own timeline: only requests that it holds own blocks, and they own what their columns name."""

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed

REQ_IDX = kernel_set("reference:req-idx")


def test_only_requests_that_a_rank_holds_own_blocks_and_every_column_is_owned() -> None:
    left = 0

    def look(simulation, actor, done):
        nonlocal left
        for judge in simulation.judges:
            ledger = judge.ledger
            owned = {(o.request, o.group, block) for block, owners in ledger.owners.items() for o in owners}
            assert {request for request, _, _ in owned} <= {*ledger.columns}
            left += len(ledger.incarnation) > len(ledger.columns)

    for seed in (1, 7, 11):
        assert run(from_seed(seed, 2, "v2"), REQ_IDX, observer=look).clean
    assert left > 100
