"""Choosers: one decides, another keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.ordering import canonical_decisions
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.choosers import Event, Place
from stalerow.simulator.schedule.choosers.checking import CheckingOrder
from stalerow.simulator.schedule.choosers.given import GivenOrder
from stalerow.simulator.schedule.choosers.hypothesis import HypothesisChooser
from stalerow.simulator.schedule.choosers.recorded import RecordedChooser
from stalerow.simulator.schedule.choosers.recording import Decision, RecordingChooser, deviations
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.generate import from_seed, generate
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.rules.pct import Priorities, PriorityOrder
from stalerow.simulator.schedule.rules.pos import PartialOrder, PartialOrderSampling
from stalerow.simulator.schedule.rules.uniform import Uniform, UniformOrder

REQ_IDX = kernel_set("reference:req-idx")


def test_recorded_picks_play_back_the_same_schedule():
    for seed in range(20):
        recording = RecordingChooser(SeededChooser(seed))
        made = generate(recording)
        assert generate(RecordedChooser([p.choice for p in recording.picks])) == made


def test_no_picks_at_all_is_the_simplest_schedule():
    schedule = generate(RecordedChooser([]))
    assert len(schedule.requests) == 1
    assert schedule.pipeline.pp == 2
    assert schedule.order.deviations == 0
    assert not schedule.aborts


RULES = (Uniform(seed=1), Priorities(seed=1), Priorities(seed=2, depth=1, horizon=50), PartialOrder(seed=1))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_what_a_kind_of_order_picked_replays_without_it(rule):
    schedule = replace(from_seed(3, pp=2), order=Order(rule=rule))
    outcome = run(schedule, REQ_IDX)
    assert outcome.order.deviations > 5
    assert outcome.order.rule is UNSET
    again = run(replace(schedule, order=outcome.order), REQ_IDX)
    assert (again.digest, again.taken) == (outcome.digest, outcome.taken)


def test_kinds_of_order_and_their_seeds_give_different_orders():
    schedule = from_seed(3, pp=2)
    orders = [run(replace(schedule, order=Order(rule=rule)), REQ_IDX).order for rule in (*RULES, Uniform(seed=2))]
    assert len(set(orders)) == len(orders)


NAMES = ("device0", "device1", "host0")


@given(st.lists(st.tuples(st.permutations(NAMES), st.integers(1, 3), st.integers(0, 2)), max_size=30))
def test_deviations_make_the_same_decisions_whether_written_as_picks_or_holds(drawn):
    decisions = []
    for names, count, choice in drawn:
        enabled = tuple(sorted(names[:count], key=NAMES.index))
        if count > 1:
            decisions.append(Decision(enabled, choice % count))
    planned = GivenOrder(deviations(decisions))
    assert [planned.next(d.enabled, no_event) for d in decisions] == [d.choice for d in decisions]


def no_event(actor):
    raise AssertionError("asked for an event")


def test_a_change_point_needs_the_length_of_the_run():
    schedule = replace(from_seed(3, pp=2), order=Order())
    assert canonical_decisions(schedule) == run(schedule, REQ_IDX).decisions > 50


def lagging(order, lag):
    """A consumer that must fall behind its producer by `lag` events; whether the order lets it."""
    made = used = 0
    while made < 40:
        enabled = ["producer"] if used == made else ["consumer", "producer"]
        actor = enabled[order.next(enabled, no_event) if len(enabled) > 1 else 0]
        made, used = made + (actor == "producer"), used + (actor == "consumer")
        if made - used >= lag:
            return True
    return False


def test_priorities_find_a_long_lag_that_uniform_choices_miss():
    by_priority = sum(lagging(PriorityOrder(seed, depth=2, horizon=60), 20) for seed in range(40))
    by_chance = sum(lagging(UniformOrder(seed), 20) for seed in range(40))
    assert by_priority >= 10
    assert by_chance < by_priority / 3


def test_partial_order_sampling_draws_again_only_where_events_conflict():
    places = {"a": Place("staging", 0, "rows", 0), "b": Place("staging", 0, "rows", 0), "c": Place("host", 1)}
    events = {actor: Event(actor, frozenset(), frozenset({place})) for actor, place in places.items()}
    conflicting, apart = set(), set()
    for seed in range(200):
        order = PartialOrderSampling(seed)
        first = ["a", "b", "c"][order.next(["a", "b", "c"], events.__getitem__)]
        drawn = dict(order._priority)
        assert first not in drawn
        (conflicting if first == "a" else apart).add("b" in drawn)
        assert "c" in drawn or first == "c"
    assert conflicting == {False}
    assert True in apart


def test_the_checking_chooser_names_the_decision_at_which_runs_part():
    first = CheckingOrder(GivenOrder(Order()))
    for enabled in (["device0", "host0"], ["host0", "engine"], ["device0", "engine"]):
        first.next(enabled, no_event)
    equal, other, shorter = (CheckingOrder(GivenOrder(Order()), first.met) for _ in range(3))
    for enabled in (["device0", "host0"], ["host0", "engine"], ["device0", "engine"]):
        equal.next(enabled, no_event)
        if len(shorter.met) < 2:
            shorter.next(enabled, no_event)
        other.next(["host0", "engine"] if len(other.met) == 2 else enabled, no_event)
    assert equal.parting() is None
    parting = other.parting()
    assert parting.decision == 2
    assert "decision 2: device0, engine could act in the earlier one, host0, engine in the later" in str(parting)
    assert "decision 2, which only the earlier one comes to" in str(shorter.parting())


@given(st.data())
def test_hypothesis_picks_are_in_range_and_parts_return_what_they_make(data):
    chooser = HypothesisChooser(data.draw)
    assert chooser.pick(1, "nothing to choose") == 0
    assert 0 <= chooser.pick(7, "") < 7
    a, b = chooser.part(lambda inner: (inner.pick(2), inner.pick(3)))
    assert a in range(2)
    assert b in range(3)
