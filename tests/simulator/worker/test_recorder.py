"""What the child records of a worker's run; our own ranks stand in for the worker, and their recorder for the truth."""

from types import SimpleNamespace

import msgspec
import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.record import Executed
from stalerow.simulator.draw.recorder import Recorder as OwnRecorder
from stalerow.simulator.draw.recorder import seats
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Admit, Free
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.worker.inside.recorder import RankRecorder, Recorder, operation_of


class Both(OwnRecorder):
    """Tells every launch to a child's recorder too."""

    def __init__(self, schedule):
        super().__init__(schedule)
        self.child = None
        self.told = []
        self.ranks = []

    def _executed(self, simulation, index, actor, operation):
        if self.child is None:
            self.child = Recorder(simulation.schedule, simulation.planner)
            self.ranks = [RankRecorder(self.child, v.rank.index, v.pages.copy()) for v in self._views]
        rank, judge = self.ranks[index], simulation.judges[index]
        copies = self._meant(simulation, index, operation)[1]
        what, times = super()._executed(simulation, index, actor, operation)
        rank._pages[:] = self._views[index].pages
        step = simulation.planner.plans[operation.step].step
        if isinstance(operation, Admit):
            rank.taken(operation.step, judge.ledger, judge.handed_over)
        elif not isinstance(operation, Free):
            unmasked = (msgspec.structs.replace(seat, masked=False) for seat in seats(operation))
            rank.seats[operation.batch_step] = tuple(unmasked)
            kept = None if what.rows == () else [s.request for s in what.rows if not s.masked]
            rank.launched(operation.kind)
            args = operation.kind, operation.batch_step, operation.step, judge.ledger, copies
            rank.settle(*args, step.zero, step.copies, kept)
        if not isinstance(operation, Free):
            self.told.append((index, what))
        return what, times


SEED_BUG = catalogue()["stale-row"].schedule
SCHEDULES = {
    "seed bug": (SEED_BUG, "reference:batch-row"),
    "seed bug mended": (SEED_BUG, "reference:req-idx"),
    "busy": (from_draw(Draw(seed=23, pp=3, runner="v2", faithful=True)), "reference:req-idx"),
}


@pytest.fixture(scope="module", params=SCHEDULES)
def both(request):
    schedule, kernels = SCHEDULES[request.param]
    observer = Both(schedule)
    Subject(kernels=kernels).run(schedule, observer)
    return observer


def test_the_busy_schedule_has_blocks_in_new_hands_and_masked_rows():
    schedule, kernels = SCHEDULES["busy"]
    marks = Subject(kernels=kernels).run(schedule).marks
    assert marks["deferred output masked"] > 0
    assert marks["block reused"] > 0


def launches(both):
    return [(event.rank, event.what) for event in both.child.events() if isinstance(event.what, Executed)]


def test_writes_rows_and_meant_copies_are_those_of_our_own_recorder(both):
    mine = launches(both)
    assert len(mine) == len(both.told) > 100
    for (rank, what), (wanted_rank, wanted) in zip(mine, both.told, strict=True):
        assert (rank, what.launch, what.step, what.of) == (wanted_rank, wanted.launch, wanted.step, wanted.of)
        assert what.writes == wanted.writes
        assert what.meant == wanted.meant
        assert what.table == wanted.table
        if what.launch != "admit":
            assert [(s.request, s.masked) for s in what.rows] == [(s.request, s.masked) for s in wanted.rows]
    assert any(w.writes and w.of != w.step and w.launch == "postprocess" for _, w in mine)


def test_owners_end_as_the_ledger_has_them(both):
    for view in both._views:
        held = {}
        for rank, what in launches(both):
            if rank == view.rank.index:
                held |= {change.block: change.owners for change in what.owners}
        assert {b: o for b, o in held.items() if o} == both.ranks[view.rank.index]._owners


def test_a_violation_goes_to_the_launch_that_it_names_or_to_one_of_its_own(both):
    index = next(i for i, (_, w) in enumerate(launches(both)) if w.launch == "precopy")
    rank, what = launches(both)[index]
    told = {"kind": "wrong position", "rank": rank, "step": what.of, "during": what.step, "explanation": "x"}
    both.child.found(Violation(launch="precopy", **told), 0)
    (event,) = [e for e in both.child.events() if 0 in e.violations]
    assert (event.rank, event.what) == (rank, what)
    both.child.found(Violation(launch="nothing that ran", **told), 1)
    last = both.child.events()[-1]
    assert (last.violations, last.what.launch, last.rank) == ((1,), "nothing that ran", rank)


def test_what_changes_without_a_launch_is_the_phase_s_own(both):
    rank = both.ranks[0]
    rank._pages[0, 3, 0] ^= 0xFF
    rank.settle("free", 1, 1, SimpleNamespace(owners={}))
    (_, what) = launches(both)[-1]
    assert (what.launch, [(w.block, w.how, w.asked) for w in what.writes]) == ("free", [(3, "stray", False)])


def test_kernels_go_by_the_names_of_operations():
    names = {
        "postprocess_mamba_fused_kernel": "postprocess",
        "_gather_block_tables_kernel": "gather",
        "_post_update_kernel": "post_update",
        "_post_update_num_computed_tokens_kernel": "advance",
        "_rejection_kernel": "rejection",
        "forward": "forward",
    }
    assert {kernel: operation_of(kernel) for kernel in names} == names
