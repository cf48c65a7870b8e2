"""A stream does what was queued in order, once its head is ready."""

from stalerow.simulator.rank.device import DeviceQueue
from stalerow.simulator.rank.operations import Zero


def zero(block: int, ready=None) -> Zero:
    return Zero(step=1, run=lambda: None, ready=ready, blocks=(block,))


def test_operations_leave_in_the_order_in_which_they_came():
    queue, made = DeviceQueue(), [zero(1), zero(2)]
    for operation in made:
        queue.push(operation)
    assert len(queue) == 2
    assert queue.pending() == tuple(made)
    assert queue.head() is made[0]
    assert [queue.pop(), queue.pop()] == made
    assert not queue.runnable()


def test_what_another_stream_would_do_goes_before_everything_queued():
    queue, (first, second) = DeviceQueue(), (zero(1), zero(2))
    queue.push(first)
    queue.overtake(second)
    assert queue.pop() is second


def test_a_head_that_waits_holds_up_the_stream():
    arrived: list[int] = []
    queue = DeviceQueue()
    queue.push(zero(1, ready=lambda: bool(arrived)))
    queue.push(zero(2))
    assert not queue.runnable()
    arrived.append(1)
    assert queue.runnable()
