"""A cluster of several Ray nodes on one machine gives what one process gives, also when a node is killed midway."""

import subprocess
import sys
import time
from functools import partial

import pytest

from stalerow.simulator.campaign import failures, leases, trials
from stalerow.simulator.campaign.clusters import RayCluster
from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.campaign.fuzz import Campaign
from stalerow.simulator.campaign.leases import Leases
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.trials import Trial
from stalerow.simulator.errors import UsageError
from stalerow.simulator.explore import exploration
from stalerow.simulator.explore.bounds import Bounds
from stalerow.simulator.explore.exploration import Exploration
from stalerow.simulator.explore.progress import Progress
from stalerow.simulator.explore.search import do
from stalerow.simulator.subject.subject import Subject

ray = pytest.importorskip("ray", reason="needs Ray (extra stalerow[ray])")

BOUNDS = Bounds(requests=2, steps=6, prompt=2, output=3, gap=1)
SEEDS = (0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 13)
"""One kind of violation among them, so that there is one failure to shrink."""


@pytest.fixture(scope="module")
def cluster():
    """A head and two nodes with a core each."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False, logging_level=40)
    yield made, nodes
    ray.shutdown()
    made.shutdown()


def held_there(work, node, reached, task):
    """Does a task, but on one node keeps what came of it, until the node is killed."""
    done = work(task)
    if ray.get_runtime_context().get_node_id() == node:
        reached.touch()
        time.sleep(600)
    return done


class Losing(RayCluster):
    """A node is killed with a lease in its hands, once two others have come back."""

    def __init__(self, work, cluster, node, reached):
        super().__init__(partial(held_there, work, node.node_id, reached))
        self._cluster, self._node, self._reached = cluster, node, reached
        self.results = 0
        self.told = []

    def wait(self, timeout=None):
        if self._node is not None and self.results >= 2 and self._reached.exists():
            self._cluster.remove_node(self._node, allow_graceful=False)
            self._node = None
        done = super().wait(timeout)
        self.results += len(done)
        return done

    def repeated(self):
        told = super().repeated()
        self.told += told
        return told


class Quiet:
    def tick(self, progress):
        pass

    def died(self, lease, how):
        raise AssertionError(f"{lease}: {how}")

    def note(self, text):
        pass


def search(path, executor):
    progress = Progress(bounds=BOUNDS, subject=Subject(kernels="reference:batch-row"), stop=54)
    return Exploration(progress, path, executor, Quiet(), keep_going=True).run()


def test_a_node_that_is_killed_midway_loses_no_lease_and_repeats_none_silently(cluster, tmp_path, monkeypatch):
    made, nodes = cluster
    monkeypatch.setattr(exploration, "LEASE", 6)
    losing = Losing(do, made, nodes[0], tmp_path / "reached")
    progress = search(tmp_path / "cluster.json", lambda: losing)
    whole = search(tmp_path / "alone.json", lambda: InProcess(do))
    assert progress.over
    assert whole.failed
    assert (progress.schedules, progress.failed, progress.counts) == (whole.schedules, whole.failed, whole.counts)
    assert progress.failing == whole.failing
    assert len(losing.told) == 1
    assert "ran again: its node was lost" in losing.told[0]


class Campaigning(Campaign):
    made = None

    def _executor(self, notes):
        return Leases(self.made, trials.do, Trial, 3) if self.made else InProcess(trials.do)


class Hearing(Quiet):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def tick(self, tally, doing):
        pass

    def finding(self, finding):
        pass


def fuzzed(folder, executor):
    subject = Subject(kernels="reference:batch-row")
    asked = Options(subject=subject, seeds=SEEDS, runs=len(SEEDS), folder=folder, keep_going=True, schedule_s=120.0)
    campaign = Campaigning(asked, Hearing())
    campaign.made = executor
    tally = campaign.run()
    found = {path.name: failures.load(path).failure for path in failures.saved(folder)}
    return (tally.schedules, tally.kinds, tally.marks, tally.first_seen), found, campaign.listener.notes


def test_a_campaign_loses_no_seed_with_a_node_and_repeats_none_silently(cluster, tmp_path):
    made, _ = cluster
    node = made.add_node(num_cpus=1)
    made.wait_for_nodes()
    losing = Losing(leases.do, made, node, tmp_path / "reached")
    sums, found, notes = fuzzed(tmp_path / "cluster" / "failures", losing)
    alone, alone_found, _ = fuzzed(tmp_path / "alone" / "failures", None)
    assert sums == alone
    assert alone_found
    assert found == alone_found
    assert notes == losing.told
    assert len(notes) == 1
    assert "3 tasks from" in notes[0]
    assert notes[0].endswith("ran again: its node was lost")


def suicide(task):
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_takes_its_workers_down_is_blamed_after_the_second(cluster):
    with RayCluster(suicide) as executor:
        ticket = executor.submit("a wild copy")
        done = []
        while not done:
            done = executor.wait(5)
        assert executor.repeated() == ["a wild copy ran again: its worker process died"]
    assert (done[0].ticket, done[0].died) == (ticket, "died in two workers")


class Endless:
    limit_s = 1.0

    def __str__(self):
        return "an endless launch"


def hang(task):
    import time

    time.sleep(600)


def test_a_task_that_does_not_return_is_named_after_the_second_time(cluster):
    with RayCluster(hang) as executor:
        executor.submit(Endless())
        done = []
        while not done:
            done = executor.wait(5)
        assert executor.repeated() == ["an endless launch ran again: its worker process did not return within 1 s"]
    assert done[0].hung == "did not return within 1 s, in two workers"


def test_without_a_cluster_there_is_one_line(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: (_ for _ in ()).throw(ConnectionError("nobody answers")))
    with pytest.raises(UsageError, match="no Ray cluster at 'auto': nobody answers"), RayCluster(do, "auto"):
        pass


TOLD = """
import os, signal, sys
from stalerow.simulator.campaign.clusters import RayCluster

signal.signal(signal.SIGTERM, signal.default_int_handler)
with RayCluster(print, sys.argv[1]):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        print("goes on to say what it has")
"""


def test_a_campaign_that_is_told_to_end_keeps_what_it_has(cluster):
    made, _ = cluster
    done = subprocess.run([sys.executable, "-c", TOLD, made.address], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "goes on to say what it has\n"), done.stderr
