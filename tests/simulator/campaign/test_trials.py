"""What a worker does with a draw: run it, leave it, or reduce what it showed; and what it says of it."""

from __future__ import annotations

import dataclasses

import pytest

from stalerow.simulator.campaign.trials import Reduction, Seen, Trial, digest_of, do
from stalerow.simulator.errors import UsageError
from stalerow.simulator.rank.released import RefusedLayout
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject

HEALTHY, FAULTY = Subject(kernels="reference:req-idx"), Subject(kernels="reference:batch-row")
DRAW = Draw(558, pp=2, runner="v2")


def refusing(error: Exception):
    def run(self: Subject, schedule: object, observer: object = None, order: object = None) -> None:
        raise error

    return run


def test_a_refused_layout_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "run", refusing(RefusedLayout("refuses the DS conv layout")))
    seen = Trial(Draw(1), HEALTHY).do()
    assert seen.skipped
    assert seen.violation is None


def test_other_bad_input_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "run", refusing(UsageError("no such layout")))
    with pytest.raises(UsageError, match="no such layout"):
        Trial(Draw(1), HEALTHY).do()


def test_a_trial_runs_a_draw_as_often_as_it_is_told() -> None:
    seen = do(Trial(DRAW, HEALTHY, times=2))
    alone = HEALTHY.run(from_draw(DRAW))
    assert seen.digests == (alone.digest, alone.digest)
    assert not seen.differs
    assert (seen.violation, seen.order, seen.bounded, seen.skipped) == (None, None, True, False)
    assert (seen.memory, seen.decisions, seen.requests) == (
        alone.memory,
        alone.decisions,
        len(from_draw(DRAW).requests),
    )
    assert seen.marks == tuple(alone.marks)


def test_a_failing_trial_keeps_its_first_violation_and_its_order() -> None:
    seen = Trial(DRAW, FAULTY).do()
    alone = FAULTY.run(from_draw(DRAW))
    assert seen.violation == alone.violations[0]
    assert seen.order == alone.order


def test_runs_differ_where_their_digests_do(seen: Seen) -> None:
    assert not seen.differs
    assert Seen(DRAW, None, ("ab", "cd"), (), True, 1, 1).differs


def test_a_task_is_named_by_the_command_that_runs_it_and_says_how_long_it_may_take(seen: Seen) -> None:
    assert str(Trial(DRAW, FAULTY)) == "stalerow replay 558 --kernels reference:batch-row --pp 2 --runner v2"
    assert Trial(DRAW, FAULTY).limit_s is None
    assert Trial(DRAW, FAULTY, times=2, schedule_s=3.0).limit_s == 6.0
    assert str(Reduction(seen, FAULTY, FAULTY)).endswith("(shrinking)")
    assert Reduction(seen, FAULTY).limit_s is None
    assert Reduction(seen, FAULTY, schedule_s=2.0, shrink_s=10.0).limit_s == 22.0


def test_a_failure_that_does_not_come_again_is_a_breach_and_not_shrunk(seen: Seen) -> None:
    another = dataclasses.replace(seen, draw=DRAW)
    reduced = Reduction(another, FAULTY, FAULTY).do()
    assert reduced.differing == ("ab", digest_of((FAULTY, from_draw(DRAW))))
    assert reduced.parting == "two more runs were equal at every decision"
    assert (reduced.runs, reduced.drawing) == (0, "")


def test_a_failure_is_confirmed_with_the_kernels_in_question() -> None:
    seen = Trial(DRAW, FAULTY).do()
    kept = Reduction(seen, FAULTY, FAULTY, shrink_s=0.0).do()
    assert kept.confirmed
    assert (kept.violation, kept.runs) == (seen.violation, 0)
    assert seen.violation is not None
    assert seen.violation.kind in kept.drawing
    other = Reduction(seen, HEALTHY, FAULTY, shrink_s=0.0).do()
    assert not other.confirmed
    assert other.drawing == ""
