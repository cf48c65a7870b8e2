"""How soon every kind of violation that the project can provoke is found, and how small it gets.

A row provokes one kind with one fault of the catalogue (or with the kernels of before the fix). The bounds are what was
measured with some room; a change that makes finding or shrinking worse fails here. "Output divergence" has no row: it
is what an output shows later of a violation that comes before it.
"""

from typing import NamedTuple

import pytest

from stalerow.simulator.campaign.candidates import signature
from stalerow.simulator.campaign.shrink import shrink
from stalerow.simulator.draw.picture import picture
from stalerow.simulator.faults import resolve
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

BATCH_ROW = Subject(kernels="reference:batch-row")


def fault(name):
    return Subject(kernels="reference:req-idx", faults=(name,))


class Row(NamedTuple):
    """`kind` first shows within `schedules` seeds and shrinks to `requests` requests, `decisions` decisions and P."""

    kind: str
    subject: Subject
    schedules: int
    requests: int
    decisions: int
    pp: int = 2


# Two requests are the least that a stale row needs. Its postprocess looks up a row of another step's gathered table,
# and a single request has no other step's table to be found in: between two steps of one decoding request lie P - 1
# steps without it, which without another request gather nothing.
ROWS = (
    Row("cross-request copy", BATCH_ROW, 10, 2, 250),
    Row("wrong position", BATCH_ROW, 60, 2, 300),
    Row("use after free", fault("optimistic-free"), 15, 1, 150),
    Row("stale slot", fault("stale-accept"), 15, 3, 160),
    Row("torn copy", fault("overlap-shift"), 15, 1, 110),
    Row("uninitialised read", fault("null-state"), 5, 1, 70),
    Row("poisoned cache", fault("wrong-grid-split"), 15, 2, 130),
    Row("dead binding", fault("dead-binding"), 5, 1, 110),
    Row("rank divergence", fault("rank-divergence"), 10, 1, 110),
    Row("out of bounds", fault("address-width"), 5, 3, 120),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind.replace(" ", "-"))
def test_a_kind_is_found_soon_and_shrunk_small(row):
    schedule, wanted = _find(row)
    small = shrink(row.subject, schedule, wanted).schedule
    outcome = row.subject.run(small)
    assert signature(outcome.violations[0]) == wanted
    assert len(small.requests) <= row.requests
    assert small.pipeline.pp <= row.pp
    assert small.order.deviations <= 1
    assert outcome.decisions <= row.decisions
    lines = picture(small, row.subject.run, str(row.subject)).splitlines()
    assert len(lines) <= 44
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("start", range(3))
def test_plain_fuzzing_finds_a_shallow_staging_pool_within_ten_schedules(start):
    subject = fault("staging-depth")
    (shallow,) = resolve(subject.faults).faults
    runs = (subject.run(from_seed(start * 1_000_003 + i)).violations for i in range(10))
    assert any(violations and shallow.shows(violations[0]) for violations in runs)


def _find(row):
    for seed in range(row.schedules):
        schedule = from_seed(seed)
        violations = row.subject.run(schedule).violations
        if violations and violations[0].kind == row.kind:
            return schedule, signature(violations[0])
    pytest.fail(f"no {row.kind} in {row.schedules} schedules with {row.subject}")


def test_without_a_fault_the_same_schedules_are_clean():
    subject = Subject(kernels="reference:req-idx")
    for seed in range(max(row.schedules for row in ROWS)):
        assert subject.run(from_seed(seed)).clean, f"seed {seed}"
