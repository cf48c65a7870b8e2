"""The executor that is no process: one task at a time, when its result is asked for."""

import pytest

from stalerow.simulator.campaign.executors import InProcess


def test_tasks_run_in_order_when_they_are_waited_for():
    ran = []
    with InProcess(lambda task: ran.append(task) or 2 * task) as executor:
        tickets = [executor.submit(5), executor.submit(6)]
        assert (executor.running, executor.idle, ran) == (2, 0, [])
        assert [(d.ticket, d.task, d.value) for d in executor.wait()] == [(tickets[0], 5, 10)]
        assert ran == [5]
    assert (executor.running, executor.idle) == (0, 1)
    assert executor.wait() == []
    assert executor.repeated() == []


def test_what_a_task_raises_is_raised_where_it_is_waited_for():
    executor = InProcess(lambda task: 1 // task)
    executor.submit(0)
    with pytest.raises(ZeroDivisionError):
        executor.wait()
