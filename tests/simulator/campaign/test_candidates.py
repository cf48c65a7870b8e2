"""A candidate will do if it fails in the wanted way; it runs once at most, and no longer than it takes to know."""

import msgspec
import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.campaign.candidates import Candidates, signature
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.order import Hold, Order
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")
FAILING = catalogue()["stale-row"].schedule
WANTED = ("cross-request copy", "postprocess", True)


def as_it_is(schedule: Schedule) -> Schedule:
    return schedule


def candidates(wanted=WANTED, budget: int = 5, prepare=as_it_is, **given) -> Candidates:
    return Candidates(SUBJECT, wanted, budget, prepare, **given)


def later(at: int) -> Schedule:
    """The same failure, in another schedule for every `at`."""
    return msgspec.structs.replace(FAILING, order=Order(holds=(Hold(at=at, actor="device1"),)))


def test_a_failure_is_kept_by_its_kind_launch_and_lateness(violation):
    assert signature(violation) == ("stale slot", "precopy", False)
    assert signature(msgspec.structs.replace(violation, deferred=True, rank=0)) == ("stale slot", "precopy", True)


def test_what_fails_in_the_wanted_way_will_do_and_runs_once():
    asked = candidates()
    assert asked.fails(FAILING)
    assert asked.fails(FAILING)
    assert asked.runs == 1


@pytest.mark.parametrize("part", range(3))
def test_what_fails_in_another_way_will_not(part):
    wanted = [*WANTED]
    wanted[part] = ("stale slot", "precopy", False)[part]
    assert not candidates(tuple(wanted)).fails(FAILING)


def test_what_does_not_fail_will_not():
    first = msgspec.structs.replace(FAILING, requests=FAILING.requests[:1])
    assert not candidates().fails(first)


def test_what_no_engine_would_accept_will_not():
    impossible = msgspec.structs.replace(FAILING.limits, max_num_batched_tokens=0)
    asked = candidates()
    assert not asked.fails(msgspec.structs.replace(FAILING, limits=impossible))
    assert asked.runs == 1


def test_the_budget_bounds_the_runs_and_what_is_known_costs_nothing():
    asked = candidates(budget=1)
    assert asked.fails(FAILING)
    assert asked.spent
    assert not asked.fails(later(900))
    assert asked.fails(FAILING)
    asked.allow(1)
    assert asked.fails(later(900))
    assert (asked.runs, asked.spent) == (2, True)


def test_nothing_more_is_run_once_the_time_is_up():
    asked = candidates(shrink_s=0.0)
    assert asked.spent
    assert not asked.fails(FAILING)
    assert asked.runs == 0


def test_a_run_that_takes_too_long_will_not_do():
    assert not candidates(schedule_s=1e-5).fails(FAILING)
    assert candidates(schedule_s=60.0).fails(FAILING)


def test_a_candidate_is_run_as_the_campaign_would_prepare_it():
    def healthy(schedule: Schedule) -> Schedule:
        return msgspec.structs.replace(schedule, requests=schedule.requests[:1])

    asked = candidates(prepare=healthy)
    assert not asked.fails(FAILING)
    assert not asked.fails(later(900))
    assert asked.runs == 2


def test_what_takes_far_longer_to_fail_than_the_best_so_far_is_not_simpler():
    quick = candidates()
    assert quick.fails(FAILING)
    quick._shortest = 4  # as if one had failed at its fourth event
    assert not quick.fails(later(900))


def test_the_order_up_to_a_failure_fails_alike():
    ruled = from_seed(575, 2, "v2")
    wanted = signature(SUBJECT.run(ruled).violations[0])
    order = candidates(wanted).order_to_failure(ruled)
    assert ruled.order.rule
    assert not order.rule
    assert order.deviations
    assert candidates(wanted).fails(msgspec.structs.replace(ruled, order=order))
