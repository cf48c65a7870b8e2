"""One workload's search goes on from inside a schedule's orders, and comes to what one search comes to."""

import msgspec
import pytest

from stalerow.simulator.errors import UsageError
from stalerow.simulator.explore import alone
from stalerow.simulator.explore.alone import Alone, AloneSearch, load
from stalerow.simulator.explore.bounds import Bounds, Shape, number_of, schedule
from stalerow.simulator.explore.orders import OrderSearch, Reduction
from stalerow.simulator.explore.search import Lease
from stalerow.simulator.subject.subject import Subject

SHALLOW = Bounds(requests=1, pp=1, steps=4, prompt=2, output=3, staging_depth=1)
REQ_IDX = Subject(kernels="reference:req-idx")


def workload():
    return Alone(subject=REQ_IDX, bounds=SHALLOW, index=number_of(SHALLOW, [Shape(0, 2, 3)]))


def given():
    return Alone(subject=REQ_IDX, schedule=schedule(SHALLOW, [Shape(0, 2, 3)], [[1]]))


class Paused(AloneSearch):
    """Is interrupted after so many runs."""

    def __init__(self, *args, runs, **kwargs):
        super().__init__(*args, **kwargs)
        self._left = runs

    def _pause(self, search, asked):
        self._left -= 1
        self.interrupted = self._left <= 0
        return super()._pause(search, asked)


def results(progress):
    failing = [(f.violation.identity(), f.size) for f in progress.failing]
    return progress.schedules, progress.failed, progress.counts, failing


@pytest.mark.parametrize("fresh", [workload, given])
def test_a_search_interrupted_inside_a_schedule_comes_to_the_same(tmp_path, fresh):
    whole = AloneSearch(fresh(), tmp_path / "whole.json", lambda p: None, keep_going=True).run()
    path, rounds, progress = tmp_path / "parts.json", 0, fresh()
    while not progress.over:
        Paused(progress, path, lambda p: None, keep_going=True, runs=3).run()
        progress, rounds = load(path, fresh()), rounds + 1
    assert whole.over
    assert whole.failing
    assert rounds > whole.counts.runs / 4 > whole.schedules
    assert results(progress) == results(whole)


def test_a_workload_alone_is_what_its_lease_is(tmp_path):
    progress = AloneSearch(workload(), tmp_path / "alone.json", lambda p: None, keep_going=True).run()
    leased = Lease(SHALLOW, REQ_IDX, workload().index, workload().index + 1).do()
    assert (progress.schedules, progress.failed, progress.counts) == (
        leased.schedules,
        leased.failed,
        leased.counts,
    )


def test_a_search_stops_at_the_first_violation_and_says_where_it_stands(tmp_path):
    progress = AloneSearch(given(), tmp_path / "first.json", lambda p: None).run()
    assert not progress.over
    assert len(progress.failing) == 1
    assert (progress.tried, progress.violating, progress.schedules) == (1, 1, 0)
    assert REQ_IDX.run(progress.failing[0].schedule).violations


def test_a_given_schedule_keeps_its_acceptances(tmp_path):
    made = given().schedule
    progress = AloneSearch(given(), tmp_path / "given.json", lambda p: None, keep_going=True).run()
    search = OrderSearch(made, REQ_IDX, Reduction())
    for _ in search.runs():
        pass
    assert (progress.schedules, progress.counts) == (1, search.counts)


def test_a_file_of_another_search_is_refused(tmp_path):
    path = tmp_path / "alone.json"
    AloneSearch(given(), path, lambda p: None).run()
    with pytest.raises(UsageError, match="is the search of something else"):
        load(path, workload())
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(given(), alone_format=alone.FORMAT + 1)))
    with pytest.raises(UsageError, match="alone_format is 2"):
        load(path, given())
