"""Trials go out in the order of draws, and their results are taken in it, whatever order they end in."""

from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.stream import RUN_AGAIN_EVERY, TrialStream
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject


def stream(count: int, again: bool = False) -> TrialStream:
    return TrialStream(Subject(), (Draw(seed) for seed in range(count)), again, 3.0)


def test_results_wait_for_those_before_them():
    made = stream(3)
    for ticket in (7, 8, 9):
        made.next()
        made.gave(ticket)
    assert [d.ticket for d in made.took(Done(8, None))] == []
    assert [d.ticket for d in made.took(Done(7, None))] == [7, 8]
    assert [d.ticket for d in made.took(Done(9, None))] == [9]


def test_the_end_of_the_draws_is_known():
    made = stream(1)
    first = made.next()
    assert (first.draw, first.schedule_s) == (Draw(0), 3.0)
    assert not made.exhausted
    assert made.next() is None
    assert made.exhausted
    assert made.given == 1


def test_now_and_then_a_schedule_runs_twice_where_that_is_asked_for():
    made = stream(2 * RUN_AGAIN_EVERY, again=True)
    assert [made.next().times for _ in range(2 * RUN_AGAIN_EVERY)] == 2 * ([2] + [1] * (RUN_AGAIN_EVERY - 1))
    assert {stream(1).next().times} == {1}
