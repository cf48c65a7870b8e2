"""A search that is interrupted goes on from its file and comes to the same; a lease that is lost is done again."""

import msgspec
import pytest

from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.errors import UsageError
from stalerow.simulator.explore import exploration
from stalerow.simulator.explore.bounds import Bounds, total
from stalerow.simulator.explore.exploration import Exploration
from stalerow.simulator.explore.progress import Progress, load, save
from stalerow.simulator.explore.search import Lease, do
from stalerow.simulator.subject.subject import Subject

BOUNDS = Bounds(requests=2, steps=5, prompt=1, output=3, gap=1)


def fresh():
    return Progress(bounds=BOUNDS, subject=Subject(kernels="reference:batch-row"), stop=total(BOUNDS))


class Quiet:
    def __init__(self):
        self.deaths = []

    def tick(self, progress):
        pass

    def note(self, text):
        pass

    def died(self, lease, how):
        self.deaths.append((lease.start, lease.stop))


class Interrupted(InProcess):
    """Ctrl-C arrives after two leases."""

    def __init__(self):
        super().__init__(do)
        self._left = 2

    def wait(self, timeout=None):
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return super().wait(timeout)


class Losing(InProcess):
    """The process that has workload 5 dies."""

    def wait(self, timeout=None):
        ticket, task = self._waiting.popleft()
        if task.start <= 5 < task.stop:
            return [Done(ticket, task, died="was killed by SIGSEGV")]
        return [Done(ticket, task, do(task))]


def results(progress):
    return progress.done, progress.schedules, progress.failed, progress.counts, progress.failing


@pytest.fixture(autouse=True)
def small_leases(monkeypatch):
    monkeypatch.setattr(exploration, "LEASE", 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "search.json"
    return Exploration(fresh(), path, lambda: InProcess(do), Quiet(), keep_going=True).run()


def test_a_search_interrupted_again_and_again_comes_to_the_same(tmp_path, whole):
    path, rounds, progress = tmp_path / "search.json", 0, fresh()
    while not progress.over:
        search = Exploration(progress, path, Interrupted, Quiet(), keep_going=True)
        search.run()
        progress, rounds = load(path), rounds + 1
        assert search.interrupted or progress.over
    assert rounds >= 6
    assert whole.failed
    assert results(progress) == results(whole)


def test_a_lease_whose_process_dies_costs_the_workload_that_kills_it_only(tmp_path, whole):
    listener = Quiet()
    search = Exploration(fresh(), tmp_path / "search.json", lambda: Losing(do), listener, keep_going=True)
    progress = search.run()
    assert [(lease.start, lease.stop) for lease, _ in search.deaths] == [(5, 6)]
    assert listener.deaths == [(4, 6), (5, 6)]
    assert progress.left() == [(5, 6)]
    assert progress.finished == whole.finished - 1


def test_a_search_stops_at_a_violation_unless_told_to_keep_going(tmp_path):
    progress = Exploration(fresh(), tmp_path / "search.json", lambda: InProcess(do), Quiet()).run()
    assert progress.failing
    assert not progress.over
    assert progress.seconds_left() > 0


def test_nothing_is_done_twice():
    progress, lease = fresh(), Lease(BOUNDS, fresh().subject, 2, 4)
    progress.add(lease, do(lease))
    with pytest.raises(ValueError, match="workloads 2 to 3 were searched twice"):
        progress.add(lease, do(lease))
    assert progress.left() == [(0, 2), (4, progress.stop)]
    assert (progress.up_to, progress.finished) == (0, 2)


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "search.json"
    save(fresh(), path)
    assert load(path) == fresh()
    path.write_bytes(b"{}")
    with pytest.raises(UsageError, match="not the file of a search"):
        load(path)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(fresh(), progress_format=9)))
    with pytest.raises(UsageError, match="progress_format is 9"):
        load(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.json")
