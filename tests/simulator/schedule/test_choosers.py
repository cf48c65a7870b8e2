"""Choosers: one decides, another keeps, a third tries everything."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.choosers.exhaustive import ExhaustiveChooser
from stalerow.simulator.schedule.choosers.hypothesis import HypothesisChooser
from stalerow.simulator.schedule.choosers.pct import PriorityOrder
from stalerow.simulator.schedule.choosers.recorded import RecordedChooser
from stalerow.simulator.schedule.choosers.recording import RecordingChooser, RecordingOrder
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.generate import from_seed, generate
from stalerow.simulator.schedule.values import Schedule

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


def test_exhaustive_tries_every_list_of_picks_once_in_order():
    chooser = ExhaustiveChooser()
    seen = []
    while chooser.more():
        first = chooser.pick(3, "a")
        seen.append((first, chooser.pick(2, "b") if first else 0, chooser.pick(2, "c")))
    expected = [(0, 0, c) for c in range(2)]
    expected += [(a, b, c) for a, b, c in itertools.product((1, 2), range(2), range(2))]
    assert seen == expected
    assert chooser.runs == len(expected)


def test_exhaustive_varies_the_first_picks_only_when_bounded():
    chooser = ExhaustiveChooser(depth=2)
    seen = []
    while chooser.more():
        seen.append(tuple(chooser.pick(2, "") for _ in range(4)))
    assert seen == [(0, 0, 0, 0), (0, 1, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0)]


def test_exhaustive_refuses_a_run_that_is_not_a_function_of_its_picks():
    chooser = ExhaustiveChooser()
    sizes = iter([2, 3])
    chooser.more()
    chooser.pick(next(sizes), "drifting")
    chooser.more()
    with pytest.raises(ValueError, match="drifting"):
        chooser.pick(next(sizes), "drifting")


def test_every_order_of_the_first_events_is_clean():
    schedule = generate(RecordedChooser([]))
    chooser = ExhaustiveChooser(depth=5)
    while chooser.more():
        assert run(schedule, REQ_IDX, order=RecordingOrder(chooser)).clean
    assert chooser.runs > 10


def test_an_order_that_was_recorded_replays_to_the_same_digest():
    schedule = from_seed(3, pp=2)
    recording = RecordingOrder(SeededChooser(1))
    outcome = run(schedule, REQ_IDX, order=recording)
    fields = {f: getattr(schedule, f) for f in schedule.__struct_fields__}
    again = run(Schedule(**fields | {"order": recording.order}), REQ_IDX)
    assert recording.order.deviations > 10
    assert again.digest == outcome.digest


def test_priorities_are_a_function_of_the_seed_and_change_the_order():
    schedule = from_seed(3, pp=2)
    orders = [PriorityOrder(seed) for seed in (5, 5, 6)]
    outcomes = [run(schedule, REQ_IDX, order=order) for order in orders]
    assert orders[0].order == orders[1].order != orders[2].order
    assert all(o.clean for o in outcomes)
    fields = {f: getattr(schedule, f) for f in schedule.__struct_fields__}
    assert run(Schedule(**fields | {"order": orders[0].order}), REQ_IDX).digest == outcomes[0].digest


@given(st.data())
def test_hypothesis_picks_are_in_range_and_parts_return_what_they_make(data):
    chooser = HypothesisChooser(data.draw)
    assert chooser.pick(1, "nothing to choose") == 0
    assert 0 <= chooser.pick(7, "") < 7
    a, b = chooser.part(lambda inner: (inner.pick(2), inner.pick(3)))
    assert a in range(2)
    assert b in range(3)
