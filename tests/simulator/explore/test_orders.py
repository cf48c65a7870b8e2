"""The reduced search of orders finds what the unreduced one finds; events said to commute do."""

import pytest
from msgspec.structs import replace

from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.explore import orders, reduction
from stalerow.simulator.explore.bounds import Bounds, Shape, count, number_of, schedule
from stalerow.simulator.explore.orders import OrderSearch, Reduction
from stalerow.simulator.explore.search import Lease, do, failures
from stalerow.simulator.explore.states import StateTracker
from stalerow.simulator.rank.operations import BlockCounts, Gather
from stalerow.simulator.run.events import NOT_SHARED, Shared
from stalerow.simulator.run.ordering import chooser
from stalerow.simulator.schedule.choosers.recording import Decision
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.rules.pos import PartialOrder
from stalerow.simulator.subject.subject import Subject

REQ_IDX = Subject(kernels="reference:req-idx")
UNREDUCED = Reduction(commuting=False, states=False)
STATES = Reduction(commuting=False, states=True)
COMMUTING = Reduction(commuting=True, states=False)


def searched(made, cuts, subject=REQ_IDX):
    search = OrderSearch(made, subject, cuts)
    for _ in search.runs():
        assert search.counts.runs < 3000, "the bound of this test is too large"
    return search


def shallow(pp, steps, shapes, accepted):
    bounds = Bounds(requests=len(shapes), pp=pp, steps=steps, prompt=2, output=3, staging_depth=1)
    return schedule(bounds, shapes, accepted)


ONE_RANK = shallow(1, 2, (Shape(0, 1, 3),), [[1]])
TWO_RANKS = shallow(2, 2, (Shape(0, 1, 3),), [[1]])
LONGER = shallow(1, 3, (Shape(0, 2, 3),), [[1]])
WITH_GAP = shallow(1, 5, (Shape(0, 1, 1), Shape(2, 1, 2)), [[], [0]])
WAITING = schedule(Bounds(requests=3, prompt=2, output=3, steps=8), [Shape(0, 2, 3)] * 3, [[0]] * 3)
"""Steps without rows, whose block counts nobody reads."""


@pytest.mark.parametrize(
    ("made", "whole", "least"),
    [
        (ONE_RANK, UNREDUCED, 4),
        (ONE_RANK, STATES, 4),
        (LONGER, STATES, 15),
        (WITH_GAP, STATES, 4),
        (TWO_RANKS, STATES, 0),
    ],
    ids=["every-order", "every-state", "every-state-longer", "with-a-gap", "two-ranks"],
)
def test_a_reduced_search_finds_the_violations_of_the_whole_one(made, whole, least):
    unreduced = searched(made, whole)
    assert len(unreduced.found) >= least
    for cuts in (Reduction(), COMMUTING):
        reduced = searched(made, cuts)
        assert reduced.found.keys() == unreduced.found.keys()
        assert reduced.counts.runs < unreduced.counts.runs / 2


def test_a_reduction_that_lets_too_much_commute_is_noticed(monkeypatch):
    whole = searched(LONGER, STATES)
    monkeypatch.setattr(orders, "sufficient", lambda simulation, enabled, shared: (enabled[0],))
    assert searched(LONGER, COMMUTING).found.keys() < whole.found.keys()


def test_what_a_search_finds_is_a_schedule_that_fails_so():
    for failing in failures(searched(LONGER, Reduction())):
        violations = REQ_IDX.run(failing.schedule).violations
        assert violations[0].identity() == failing.violation.identity()
        assert failing.schedule.order.deviations


def test_a_search_goes_on_from_a_path_that_was_kept():
    whole = searched(LONGER, COMMUTING)
    first = OrderSearch(LONGER, REQ_IDX, COMMUTING)
    for _, _ in zip(range(5), first.runs()):
        pass
    second = OrderSearch(LONGER, REQ_IDX, COMMUTING, first.path, first.counts, first.found)
    for _ in second.runs():
        pass
    assert second.counts == whole.counts
    assert second.found.keys() == whole.found.keys()


def queue(*kinds):
    """A stream of operations of which the kind alone matters here."""
    made = {"counts": BlockCounts(step=1, run=None, counts=()), "gather": Gather(step=1, run=None, batch=None)}
    return [made.get(kind) for kind in kinds]


def test_block_counts_are_unused_only_if_others_replace_them_before_a_gather():
    assert reduction.unused(queue("counts", "copy", "counts", "gather"))
    assert not reduction.unused(queue("counts", "copy", "gather", "counts"))
    assert not reduction.unused(queue("counts", "copy"))
    assert not reduction.unused(queue("copy", "counts", "counts"))


class HostsFirst:
    """Hosts run ahead of their devices, but do not fill a buffer that is still to be read, save for unused counts."""

    def __init__(self):
        self.races = 0

    def saw(self, simulation, actor, done):
        self._simulation = simulation

    def next(self, enabled, pending):
        for rank in self._simulation.ranks:
            if f"host{rank.index}" in enabled:
                race = rank.staging.next_buffers & rank.staging.unread
                if not race or reduction.unused(rank.queue.operations):
                    self.races += bool(race)
                    return enabled.index(f"host{rank.index}")
        return enabled.index("engine") if "engine" in enabled else 0


def test_block_counts_that_nobody_uses_may_be_read_late():
    racing = HostsFirst()
    early, late = REQ_IDX.run(WAITING), REQ_IDX.run(WAITING, observer=racing.saw, order=racing)
    assert racing.races >= 2
    assert (late.digest, late.memory, late.violations) == (early.digest, early.memory, ())
    search = searched(WAITING, Reduction())
    assert search.counts.orders == search.counts.runs == 1


class Swapping:
    """Plays decisions, then the two actors given, one after the other, then the canonical order."""

    def __init__(self, decisions, pair):
        self._decisions, self._pair = decisions, list(pair)
        self.asked = 0

    def next(self, enabled, pending):
        at, self.asked = self.asked, self.asked + 1
        if at < len(self._decisions):
            return self._decisions[at].choice
        return enabled.index(self._pair.pop(0)) if self._pair else 0


class Over(Exception):
    pass


def state_after(made, decisions, pair):
    """The state once both actors of the pair have acted, right after the decisions."""
    tracker, state, acted = StateTracker(), [], []

    def saw(simulation, actor, done):
        tracker.saw(actor)
        if order.asked > len(decisions):
            acted.append(actor)
        if len(acted) == 2:
            state.append(tracker.fingerprint(simulation))
            raise Over

    order = Swapping(decisions, pair)
    with pytest.raises(Over):
        REQ_IDX.run(made, observer=saw, order=order)
    assert acted == list(pair)
    return state[0]


class Noting:
    """Notes at every decision which two enabled events are said to commute."""

    def __init__(self, inner):
        self._inner, self.met = inner, []

    def next(self, enabled, pending):
        choice = self._inner.next(enabled, pending)
        a, b = enabled[choice], enabled[choice - 1]
        self.met.append((Decision(tuple(enabled), choice), a, b, pending(a).conflicts(pending(b))))
        return choice


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_events_that_are_said_to_commute_lead_to_the_same_state(seed):
    made = replace(from_seed(seed, runner="v2"), order=Order(rule=PartialOrder(seed=seed)))
    noting = Noting(chooser(made))
    REQ_IDX.run(made, order=noting)
    picked = [i for i, (_, a, b, conflict) in enumerate(noting.met[:200]) if a != b and not conflict][::25]
    assert picked
    for at in picked:
        decisions = [met[0] for met in noting.met[:at]]
        _, a, b, _ = noting.met[at]
        assert state_after(made, decisions, (a, b)) == state_after(made, decisions, (b, a)), (a, b)


def test_states_are_not_compared_where_a_fault_may_remember_more():
    assert StateTracker().comparable(NOT_SHARED)
    assert not StateTracker().comparable(Shared(streams=True))
    faulty = OrderSearch(ONE_RANK, Subject(kernels="reference:req-idx", faults=("early-free",)))
    assert faulty.shared == Shared(streams=True)
    assert OrderSearch(ONE_RANK, Subject(kernels="reference:req-idx", faults=("staging-depth",))).shared == NOT_SHARED
    wrapped = OrderSearch(ONE_RANK, Subject(kernels="reference:req-idx", faults=("overlap-shift",)))
    assert wrapped.shared.devices


def test_batch_row_fails_at_two_requests_and_not_at_one():
    bounds = Bounds(requests=2, steps=5, prompt=2, output=3)
    batch_row = Subject(kernels="reference:batch-row")
    one = Lease(bounds, batch_row, 0, count(bounds, 1))
    with InProcess(do) as executor:
        executor.submit(one)
        (done,) = executor.wait()
    assert (done.task, done.value.failed, done.value.schedules > 6) == (one, 0, True)
    failing = number_of(bounds, (Shape(0, 2, 3), Shape(1, 1, 2)))
    two = Lease(bounds, batch_row, failing, failing + 1).do()
    assert two.failed
    assert {len(f.schedule.requests) for f in two.failing} == {2}
    assert Lease(bounds, REQ_IDX, failing, failing + 1).do().failed == 0
