"""A record holds what happened, in order, and recording changes nothing."""

from collections import Counter

import numpy as np
import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.finding import ownership
from stalerow.simulator.draw.record import Executed, Processed, Record, Scheduled
from stalerow.simulator.draw.recorder import Recorder
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

from .conftest import busy, record_of

SEEDS = [(6, 2, "v2"), (3, 4, "v2"), (1, 1, "v2"), (5, 2, "v1")]


def launches(record: Record, name: str) -> list[Executed]:
    return [e.what for e in record.events if isinstance(e.what, Executed) and e.what.launch == name]


def test_recording_changes_nothing(seed_bug):
    outcome = Subject(kernels="reference:batch-row").run(catalogue()["stale-row"].schedule)
    assert (seed_bug.digest, seed_bug.violations, seed_bug.marks) == (
        outcome.digest,
        outcome.violations,
        outcome.marks,
    )


@pytest.mark.parametrize(("seed", "pp", "runner"), SEEDS)
def test_no_event_starts_before_the_one_before_it_and_no_actor_does_two_things_at_once(seed, pp, runner):
    record = record_of("reference:req-idx", from_seed(seed, pp, runner))
    free: dict[tuple[str, int], int] = {}
    for before, event in zip(record.events, record.events[1:]):
        assert event.number == before.number + 1
        assert event.start >= before.start
    for event in record.events:
        assert event.end >= event.start >= free.get((event.actor, event.rank), 0)
        free[event.actor, event.rank] = event.end


class _Pages:
    """Blocks that change in each event, seen from outside."""

    def __init__(self) -> None:
        self.changed: list[set[tuple[int, int]]] = []
        self._before: list[np.ndarray] = []

    def __call__(self, simulation, actor, done) -> None:
        now = [r.pool.pages(np.array(r.backend.to_host(r.pool.array))) for r in simulation.ranks]
        before = self._before or now
        self.changed.append(
            {
                (rank, int(block))
                for rank, (a, b) in enumerate(zip(before, now))
                for block in np.flatnonzero((a != b).any(axis=(0, 2)))
            }
        )
        self._before = now


@pytest.mark.parametrize(("seed", "pp", "runner"), SEEDS)
def test_every_block_that_changes_has_a_write_in_the_event_that_changed_it(seed, pp, runner):
    schedule = from_seed(seed, pp, runner)
    pages, recorder = _Pages(), Recorder(schedule)

    def both(*event) -> None:
        pages(*event)
        recorder(*event)

    Subject(kernels="reference:batch-row").run(schedule, both)
    assert any(pages.changed)
    for event, changed in zip(recorder.events, pages.changed, strict=True):
        writes = event.what.writes if isinstance(event.what, Executed) else ()
        assert changed <= {(event.rank, w.block) for w in writes}


def test_the_wrong_copy_is_recorded_beside_the_meant_one(seed_bug):
    event = next(e for e in seed_bug.events if e.violations)
    what = event.what
    assert (what.launch, what.of, what.step, event.rank, what.table) == ("postprocess", 6, 8, 0, 7)
    assert [seat.request for seat in what.rows] == ["r3"]
    assert {(m.request, m.source, m.target) for m in what.meant} == {("r3", 6, 6), ("r3", 8, 6)}
    wrong = [w for w in what.writes if not w.asked]
    assert len(wrong) == 1
    owners = ownership(seed_bug, event.number)[0]
    assert [o.request for o in owners[wrong[0].block]] == ["r4"]


def test_slot_kernels_do_what_was_meant(fixed):
    for copy in launches(fixed, "postprocess") + launches(fixed, "precopy"):
        assert all(w.asked for w in copy.writes)
        made = {(w.source, w.block) for w in copy.writes}
        assert made <= {(m.source, m.target) for m in copy.meant}


def test_both_kernel_sets_have_the_same_events_and_part_at_the_wrong_copy(seed_bug, fixed):
    assert len(seed_bug.events) == len(fixed.events)
    parted = next(i for i, (a, b) in enumerate(zip(seed_bug.events, fixed.events)) if a.what != b.what)
    assert seed_bug.events[parted].violations == (0,)


def test_outputs_add_up_to_what_was_asked_for(fixed):
    tokens: Counter[str] = Counter()
    for event in fixed.events:
        if isinstance(event.what, Processed):
            tokens.update({o.request: o.tokens for o in event.what.outputs})
    assert tokens == {r.id: r.max_tokens for r in fixed.requests}


def test_rows_that_needed_no_sample_are_masked_in_a_deferred_output():
    record = record_of("reference:req-idx", busy(2, 6, 40))
    steps = {e.what.step: e.what for e in record.events if isinstance(e.what, Scheduled)}
    late = [w for w in launches(record, "postprocess") if w.of != w.step]
    idle = [(w.of, row.request) for w in late for row in steps[w.of].rows if not row.samples]
    assert idle
    assert {*idle} <= {(w.of, seat.request) for w in late for seat in w.rows if seat.masked}
    assert not all(seat.masked for w in late for seat in w.rows)


def test_an_abort_is_told_from_a_finish():
    record = record_of("reference:req-idx", catalogue()["no-generation-check"].schedule)
    steps = [e.what for e in record.events if isinstance(e.what, Scheduled)]
    schedule = catalogue()["no-generation-check"].schedule
    aborted = {r for s in steps for r in s.aborted}
    assert aborted == {a.request for a in schedule.aborts}
    assert {r for s in steps for r in s.finished} == {r.id for r in schedule.requests} - aborted


def test_every_launch_was_enqueued_by_its_own_host_before(seed_bug):
    for event in seed_bug.events:
        if isinstance(event.what, Executed):
            host = seed_bug.events[event.what.enqueued - 1]
            assert (host.actor, host.rank, host.what.step) == ("host", event.rank, event.what.step)
            assert host.number < event.number
