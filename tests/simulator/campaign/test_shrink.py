"""Shrinking keeps the failure and loses everything else."""

import pytest
from hypothesis.internal.conjecture import engine
from msgspec import UNSET
from msgspec.structs import replace

from stalerow.simulator.campaign.candidates import signature
from stalerow.simulator.campaign.shrink import shrink
from stalerow.simulator.schedule.edits import edits
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.order import Hold, Order
from stalerow.simulator.schedule.rules.pct import Priorities
from stalerow.simulator.schedule.rules.pos import PartialOrder
from stalerow.simulator.schedule.rules.uniform import Uniform
from stalerow.simulator.schedule.values import Schedule, validate
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")


def first(schedule):
    return signature(SUBJECT.run(schedule).violations[0])


def with_fields(schedule, **fields):
    return Schedule(**{f: getattr(schedule, f) for f in schedule.__struct_fields__} | fields)


def test_a_seed_shrinks_to_two_requests_in_canonical_order():
    schedule = from_seed(25)
    wanted = first(schedule)
    small = shrink(SUBJECT, schedule, wanted).schedule
    assert first(small) == wanted
    assert len(schedule.requests) > 2
    assert (len(small.requests), small.pipeline.pp, small.order.deviations, small.aborts) == (2, 2, 0, ())
    assert small.draw is None


def test_shrinking_is_repeatable_also_where_the_clock_of_hypothesis_would_end_it(monkeypatch):
    schedule = from_seed(25)
    here = shrink(SUBJECT, schedule, first(schedule), budget=60)
    monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", 0)
    assert shrink(SUBJECT, schedule, first(schedule), budget=60) == here


def test_a_forced_pipeline_size_is_shrunk_too():
    seed = next(s for s in range(40) if SUBJECT.run(from_seed(s, pp=4, runner="v2")).violations)
    schedule = from_seed(seed, pp=4, runner="v2")
    wanted = first(schedule)
    small = shrink(SUBJECT, schedule, wanted, budget=300).schedule
    assert first(small) == wanted
    assert small.pipeline.pp < 4


def test_the_budget_bounds_the_runs():
    schedule = from_seed(25)
    shrunk = shrink(SUBJECT, schedule, first(schedule), budget=12)
    assert shrunk.runs <= 12 + 6  # the edits' own half
    assert first(shrunk.schedule) == first(schedule)


def test_a_schedule_without_a_seed_shrinks_by_edits():
    small = shrink(SUBJECT, from_seed(25), first(from_seed(25))).schedule
    holds = (Hold(at=400, actor="device0"), Hold(at=500, actor="host0", decisions=4))
    padded = with_fields(small, order=Order(holds=holds), requests=(*small.requests, _late_request(small)))
    wanted = first(padded)
    again = shrink(SUBJECT, padded, wanted).schedule
    assert first(again) == wanted
    assert len(again.requests) == 2
    assert again.order.deviations == 0


@pytest.mark.parametrize("rule", [Uniform(seed=7), Priorities(seed=7, depth=2), PartialOrder(seed=7)], ids=repr)
def test_what_a_kind_of_order_found_is_kept_as_few_deviations_of_its_own(rule):
    subject = Subject(kernels="reference:req-idx", faults=("staging-depth",))
    schedules = (replace(from_seed(seed, pp=2, runner="v2"), order=Order(rule=rule)) for seed in range(20))
    schedule = next(s for s in schedules if subject.run(s).violations)
    schedule = replace(schedule, draw=None)
    wanted = signature(subject.run(schedule).violations[0])
    small = shrink(subject, schedule, wanted, budget=120).schedule
    assert small.order.rule is UNSET
    assert 1 <= small.order.deviations <= 4
    assert signature(subject.run(small).violations[0]) == wanted
    assert subject.run(replace(small, order=Order())).clean


def _late_request(schedule):
    last = schedule.requests[-1]
    fields = {f: getattr(last, f) for f in last.__struct_fields__}
    return type(last)(**fields | {"id": "late", "arrival": 40})


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_edits_are_valid_and_different(seed):
    schedule = from_seed(seed)
    made = list(edits(schedule))
    assert made
    for edited in made:
        assert validate(edited) == edited != schedule


def test_shrinking_ends_when_its_time_is_up():
    schedule = from_seed(25)
    shrunk = shrink(SUBJECT, schedule, first(schedule), shrink_s=0.0)
    assert shrunk.runs == 0
    assert first(shrunk.schedule) == first(schedule)
