"""Tasks that go out in leases come back one by one; a lease that is lost is taken apart."""

import time
from collections import deque

import pytest

from stalerow.simulator.campaign import leases
from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.campaign.leases import Lease, Leases
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.workers import Workers


def double(task):
    if task == "wrong":
        raise ValueError("not a number")
    return 2 * task


class Noting(InProcess):
    """Runs leases here, two of them at a time, and notes how large they are; whoever has 3 dies."""

    def __init__(self, deadly=()):
        super().__init__(leases.do)
        self.sizes, self._deadly = [], deadly

    @property
    def idle(self):
        return 2 - len(self._waiting)

    def wait(self, timeout=None):
        ended = []
        while self._waiting:
            ticket, lease = self._waiting.popleft()
            self.sizes.append(len(lease.tasks))
            lost = set(self._deadly) & set(lease.tasks)
            ended.append(Done(ticket, lease, died="died" if lost else "", value=None if lost else leases.do(lease)))
        return ended


def everything(executor, tasks):
    """Every result by ticket, and what was said meanwhile."""
    tasks, ended, told = deque(tasks), {}, []
    while tasks or executor.running:
        while tasks and executor.idle:
            executor.submit(tasks.popleft())
        for done in executor.wait(5):
            assert done.ticket not in ended
            ended[done.ticket] = done
        told += executor.repeated()
    return ended, told


def test_tasks_go_out_together_and_come_back_alone():
    inner = Noting()
    ended, told = everything(Leases(inner, double, int, 4), range(11))
    assert [ended[i + 1].value for i in range(11)] == [2 * i for i in range(11)]
    assert inner.sizes == [4, 4, 3]
    assert told == []


def test_a_task_of_another_kind_goes_alone():
    inner = Noting()
    everything(Leases(inner, double, int, 4), [1, 2, "x", 3])
    assert sorted(inner.sizes) == [1, 3]


def test_an_error_is_the_tasks_own():
    ended, _ = everything(Leases(Noting(), double, object, 4), [1, "wrong", 3])
    assert (ended[1].value, ended[3].value) == (2, 6)
    assert "not a number" in str(ended[2].error)


def test_a_lost_lease_is_taken_apart_aloud_and_the_task_to_blame_found():
    ended, told = everything(Leases(Noting(deadly=[3]), double, int, 4), range(6))
    assert told == ["4 tasks from 0 on ran again one by one: the process died"]
    assert [bool(ended[i + 1].died) for i in range(6)] == [False, False, False, True, False, False]
    assert [ended[i + 1].value for i in (0, 1, 2, 4, 5)] == [0, 2, 4, 8, 10]


class Slow:
    """A task that takes `seconds` and may take `limit_s`."""

    def __init__(self, seconds, limit_s):
        self.seconds, self.limit_s = seconds, limit_s


def sleep(task):
    time.sleep(task.seconds)
    return "woke up"


def test_a_task_that_does_not_return_ends_its_process_and_no_other_does():
    lease = Lease(sleep, (Slow(0.0, 600.0), Slow(86400.0, 0.5)))
    assert lease.limit_s == 600.5
    with Workers(1, leases.do) as workers:
        workers._limit = lambda task: None  # nobody but the task's own process looks at the clock
        workers.submit(Lease(sleep, (Slow(0.0, 600.0), Slow(0.0, None))))
        assert [value for value, _, _ in workers.wait()[0].value] == ["woke up"] * 2
        workers.submit(lease)
        ended = workers.wait()
        assert len(workers.repeated()) == 1
    assert ended[0].died


@pytest.mark.parametrize("limits", [(1.0, None), (None,)])
def test_a_lease_with_an_endless_task_has_no_limit(limits):
    assert Lease(sleep, tuple(Slow(0, limit) for limit in limits)).limit_s is None
