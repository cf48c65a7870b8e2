"""Virtual time of a run that its schedule ordered: what an event waits for, and how long it lasts."""

from stalerow.simulator.draw.clock import Clock
from stalerow.simulator.serve.costs import Costs

COSTS = Costs()


def clock() -> Clock:
    made = Clock(COSTS, pp=2, drafts=1)
    made.scheduled(1)
    return made


def test_a_host_waits_for_the_engines_message():
    made = clock()
    assert made.prepared(0, 1)[0] == COSTS.schedule + COSTS.message


def test_a_forward_waits_for_the_activations_of_the_rank_before_it():
    made = clock()
    made.prepared(0, 1)
    made.prepared(1, 1)
    _, end = made.forward(0, 1, tokens=8)
    assert made.forward(1, 1, tokens=8)[0] == end + COSTS.activations(8)


def test_a_late_outcome_waits_for_the_broadcast():
    made = clock()
    made.prepared(1, 1)
    _, sampled = made.sample(1, 1)
    start, received = made.broadcast(1, 1)
    assert start == sampled
    assert made.launch(0, 3, received=1)[0] == received


def test_the_order_of_events_is_kept_even_where_nothing_makes_one_wait():
    made = clock()
    made.prepared(0, 1)
    start, _ = made.forward(0, 1, tokens=8)
    assert made.scheduled(2)[0] == start
