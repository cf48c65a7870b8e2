"""The shadow of a forward: by request and column alone, it writes states that read back as the request's own."""

import numpy as np
import pytest
from small import CONV, LAYOUT, PREFILL, RECURRENT, TEMPORAL, VERIFY, admitted, planner

from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.oracle.shadow import Shadow


def forwarded(shadow, made, ledger, step):
    row = made.plan(step).rows["r0"]
    hashes = np.zeros((1, 40), np.int64)
    values = np.array(made.hashes(row), np.uint64).view(np.int64)
    hashes[0, : len(values)] = values
    shadow.forward(ledger, [row], hashes, np.zeros(1, np.int64))


def test_a_prefill_leaves_the_requests_state_in_its_running_column():
    shadow, made, ledger = Shadow(LAYOUT, 2, 8), planner(), admitted()
    forwarded(shadow, made, ledger, PREFILL)
    decoder = Decoder(made, LAYOUT)
    assert str(decoder.state(shadow.pages[0, RECURRENT[1]], TEMPORAL)) == "r0 after 6 tokens"
    assert str(decoder.state(shadow.pages[0, RECURRENT[1]], CONV)) == "r0 after 6 tokens"


@pytest.mark.parametrize("moved", [True, False])
def test_a_state_that_was_never_moved_on_is_damage(moved):
    shadow, made, ledger = Shadow(LAYOUT, 2, 8), planner(), admitted()
    forwarded(shadow, made, ledger, PREFILL)
    if moved:  # as precopy does, from column 1 to column 2
        shadow.pages[0, RECURRENT[2]] = shadow.pages[0, RECURRENT[1]]
    forwarded(shadow, made, ledger, VERIFY)
    decoder = Decoder(made, LAYOUT)
    left = [str(decoder.state(shadow.pages[0, RECURRENT[column]], TEMPORAL)) for column in (2, 3)]
    assert left == (["r0 after 7 tokens", "r0 after 8 tokens"] if moved else ["damaged or unknown bytes"] * 2)


def test_blocks_of_nobody_stay_as_they_are():
    shadow, made = Shadow(LAYOUT, 2, 8), planner()
    before = shadow.pages.copy()
    forwarded(shadow, made, admitted(), PREFILL)
    changed = np.flatnonzero((before != shadow.pages).any(axis=(0, 2)))
    assert {*changed.tolist()} <= {1, 2, 5, 6}
