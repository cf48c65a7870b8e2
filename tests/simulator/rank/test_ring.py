"""The deferred ring: an output comes out P steps after it went in, and empty steps leave empty places."""

import numpy as np

from stalerow.simulator.rank.ring import DeferredRing, RingEntry


def entry(step: int) -> RingEntry:
    return RingEntry(step, ("r0",), np.array([0]), np.array([0]), np.array([True]))


def test_an_entry_comes_out_after_as_many_steps_as_the_ring_is_deep():
    ring, came = DeferredRing(3), []
    for step in range(1, 7):
        oldest = ring.pop()
        came.append(oldest.step if oldest else None)
        ring.fill(entry(step))
    assert came == [None, None, None, 1, 2, 3]


def test_a_step_that_fills_nothing_leaves_an_empty_place():
    ring = DeferredRing(2)
    ring.pop()
    ring.fill(entry(1))
    ring.pop()
    assert ring.pop().step == 1
    assert [ring.pop(), ring.pop()] == [None, None]
