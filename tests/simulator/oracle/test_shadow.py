"""The shadow of a forward: by request and column alone, it writes states that read back as the request's own."""

import numpy as np
from small import CONV, LAYOUT, PREFILL, RECURRENT, TEMPORAL, VERIFY, admitted, planner

from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.oracle.shadow import Shadow


def forwarded(shadow, made, ledger, step):
    row = made.plan(step).rows["r0"]
    hashes = np.zeros((1, 40), np.int64)
    values = np.array(made.hashes(row), np.uint64).view(np.int64)
    hashes[0, : len(values)] = values
    return shadow.forward(ledger, [row], hashes, np.zeros(1, np.int64))


def test_a_prefill_leaves_the_requests_state_in_its_running_column():
    shadow, made, ledger = Shadow(LAYOUT, 2, 8), planner(), admitted()
    assert not forwarded(shadow, made, ledger, PREFILL).any()
    decoder = Decoder(made, LAYOUT)
    assert str(decoder.state(shadow.pages[0, RECURRENT[1]], TEMPORAL)) == "r0 after 6 tokens"
    assert str(decoder.state(shadow.pages[0, RECURRENT[1]], CONV)) == "r0 after 6 tokens"


def test_a_state_that_was_never_moved_on_is_damage():
    shadow, made, ledger = Shadow(LAYOUT, 2, 8), planner(), admitted()
    forwarded(shadow, made, ledger, PREFILL)
    damage = forwarded(shadow, made, ledger, VERIFY)  # without the precopy from column 1 to column 2
    assert damage.shape == (1, shadow.units) == (1, 3)
    assert damage[0, :2].all()
    assert not damage[0, 2]


def test_blocks_of_nobody_stay_as_they_are():
    shadow, made = Shadow(LAYOUT, 2, 8), planner()
    before = shadow.pages.copy()
    forwarded(shadow, made, admitted(), PREFILL)
    changed = np.flatnonzero((before != shadow.pages).any(axis=(0, 2)))
    assert {*changed.tolist()} <= {1, 2, 5, 6}
