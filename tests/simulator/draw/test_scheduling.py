"""What the engine decided and delivered, without what only its ranks need."""

from one_rank import both, known, row
from small import new, step

from stalerow.simulator.draw.record import Admission, Output, Share
from stalerow.simulator.draw.scheduling import processed, scheduled
from stalerow.simulator.engine.core import Delivered


def test_a_step_is_its_rows_and_who_joins():
    found = scheduled(both())
    assert (found.step, found.zeroed, found.copies) == (1, (5, 6, 9), ())
    assert found.rows == (Share(request="r0", tokens=6), Share(request="r1", tokens=6))
    assert found.admitted == (Admission(request="r0"), Admission(request="r1"))


def test_drafts_counts_and_chunks_that_sample_nothing_are_kept():
    rows = row("r0", 3, 2, 6), row("r1", 4, samples=False)
    found = scheduled(step(2, rows, cached=(known("r0", 6),), new=(new("r1", ((1,), (2,)), hit=4),)))
    assert found.rows[0] == Share(request="r0", tokens=3, drafts=2, computed=6)
    assert found.rows[1] == Share(request="r1", tokens=4, samples=False)
    assert found.admitted == (Admission(request="r1", hit=4),)


def test_a_request_that_was_called_off_is_told_from_one_that_has_all_its_tokens():
    found = scheduled(step(3, finished=("r0", "r1"), preempted=("r2",)), aborted={"r1", "r9"})
    assert (found.finished, found.aborted, found.preempted) == (("r0",), ("r1",), ("r2",))


def test_blocks_in_use_are_counted_once_and_without_the_null_block():
    lists = {"r0": ((1, 0, 2), (5,)), "r1": ((1,), (6, 0))}
    assert scheduled(step(4, block_lists=lists, copies=((1, 7),))).used == 4
    assert scheduled(step(4, copies=((1, 7),))).copies == ((1, 7),)


def test_accepted_drafts_are_those_beyond_the_first_token():
    made = step(2, (row("r0", 3, 2, 6), row("r1", 6), row("r2", 3, 2, 6)))
    delivered = Delivered(2, {"r0": (2, None), "r1": (1, None), "r2": (0, None)}, ())
    assert processed(made, delivered).outputs == (
        Output(request="r0", tokens=2, drafts=2, accepted=1),
        Output(request="r1", tokens=1),
        Output(request="r2", tokens=0, drafts=2, accepted=0),
    )
