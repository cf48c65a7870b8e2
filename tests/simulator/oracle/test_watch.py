"""What an operation was meant to do: pages, moves, rows and counts in the requests' own terms, and what they show."""

import numpy as np
import pytest
from judged import VERIFY, Judged, verifying
from one_rank import both, row
from small import new, step

from stalerow.kernels.base.memory import POISON
from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.oracle.effect import ColumnCopy
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.oracle.watch import MAX_VIOLATIONS, Watch


class Intentions(Watch):
    """Writes down what was meant."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.said: list[tuple] = []

    def filled(self, operation, blocks, byte):
        self.said.append((operation.kind, [*blocks], byte))

    def copied(self, operation, pairs):
        self.said.append((operation.kind, [*pairs]))

    def moved(self, operation, moves):
        self.said.append((operation.kind, [*moves]))

    def computed(self, operation, rows):
        self.said.append((operation.kind, [(r.request, r.start, r.num_tokens) for r in rows]))

    def counted(self, operation):
        self.said.append((operation.kind, "counted"))

    def untouched(self, operation):
        self.said.append((operation.kind,))


def watched(**given) -> Judged:
    return Judged(Intentions, **given)


def meant(made: Judged) -> dict[str, tuple]:
    """What was said last of each kind of launch, without what was to change nothing."""
    return {kind: tuple(rest) for kind, *rest in made.judge.said if rest}


def test_a_prefill_is_poisoned_zeroed_computed_and_counted():
    made = watched()
    made.hand(both())
    made.run()
    assert meant(made) == {
        "admit": ([1, 2, 3, 4, 7, 8], POISON),
        "zero": ([5, 6, 9], 0),
        "precopy": ([],),
        "forward": ([("r0", 0, 6), ("r1", 0, 6)],),
        "post_update": ("counted",),
        "postprocess": ([],),
    }
    untouched = {said[0] for said in made.judge.said if len(said) == 1}
    assert untouched >= {"free", "seed", "writes", "gather", "preprocess", "indices", "sample"}


def test_a_verification_moves_the_accepted_state_on_and_saves_one_at_the_boundary():
    made = watched()
    made.hand(both(), VERIFY)
    made.run()
    said = meant(made)
    assert said["precopy"] == ([ColumnCopy("r0", 1, 0, 2)],)
    assert said["postprocess"] == ([ColumnCopy("r0", 2, 1, 1)],)
    assert said["forward"] == ([("r0", 6, 3)],)
    assert (made.marks["running column moved"], made.marks["state saved at a boundary"]) == (1, 1)


def test_blocks_copied_on_write_are_pairs():
    made = watched()
    made.hand(both(), step(2, copies=((1, 10),)))
    made.run()
    assert meant(made)["copy_blocks"] == ([(1, 10)],)


def test_a_request_that_left_moves_nothing_and_its_output_is_masked():
    made, _ = verifying("precopy", watch=Intentions)
    made.ledger.take_frees(step(3, finished=("r0",)))
    made.run()
    assert (meant(made)["precopy"], meant(made)["postprocess"]) == (([],), ([],))
    assert made.marks["deferred output masked"] == 1


def test_another_rank_works_for_rows_whose_output_it_needs():
    made = watched(pp=2)
    made.hand(step(1, (row("r0", 6), row("r1", 4, samples=False)), new=both().new))
    made.run()
    made.hand(step(2), step(3, VERIFY.rows, cached=VERIFY.cached))
    taken = next(o.output for o in made.rank.queue.pending() if o.kind == "post_update")
    assert [r.request for r in made.judge.taken(taken)] == ["r0"]
    assert made.judge.unconsumed == {1}


def test_a_fill_that_overtakes_the_admission_of_its_step_is_an_early_one():
    made = watched()
    made.hand(both())
    made.run()
    made.hand(step(2, finished=("r0",), zero=(5,)))
    zero = next(o for o in made.rank.queue.pending() if o.kind == "zero")
    made.judge.after(zero)
    (found,) = made.found
    assert (found.kind, found.launch, found.target_block) == ("use after free", "zero", 5)
    assert "it overtook free of step 2" in found.explanation
    made.found.clear()
    made.run()
    assert made.found == []


def test_padding_is_counted_and_so_are_rows_that_were_used_before():
    made = watched(graph_sizes=(4,))
    made.hand(both(), VERIFY)
    made.run()
    assert (made.marks["padded rows"], made.marks["dirty rows zeroed"]) == (1, 1)


def test_a_slot_that_is_given_on_at_once_and_a_prefix_hit_are_counted():
    made = watched(pp=2)
    made.hand(both(), step(2, finished=("r0",), new=(new("r2", ((1, 10), (5,)), hit=4),)))
    made.run()
    assert (made.marks["slot reused within P steps"], made.marks["prefix hit"]) == (1, 1)
    assert "block reused" not in made.marks


def violation(**given) -> Violation:
    made = {"kind": "wrong position", "rank": 0, "launch": "precopy", "step": 1, "during": 1, "explanation": "it is"}
    return Violation(**made | given)


def test_the_same_violation_is_told_once_and_no_more_than_a_screenful_of_others():
    judge = watched().judge
    judge.report(violation())
    judge.report(violation(explanation="in other words"))
    assert [v.explanation for v in judge.found] == ["it is"]
    for block in range(2 * MAX_VIOLATIONS):
        judge.report(violation(target_block=block))
    assert len(judge.found) == MAX_VIOLATIONS


def test_a_violation_after_an_overwritten_buffer_says_so():
    made = watched()
    made.rank.staging.overwritten.add("rows")
    made.judge.report(violation())
    assert made.found[0].explanation.endswith("kernels have read staging buffers (rows) after the host overwrote them")


def test_the_cache_is_held_to_whole_recurrent_blocks_whose_copy_is_not_still_to_come():
    made, _ = verifying("postprocess", watch=Intentions)
    whole, part, keys = CachedBlock(0, 8, "r0"), CachedBlock(0, 6, "r0"), CachedBlock(1, 8, "r0")
    hashed = {2: whole, 3: part, 5: keys}
    assert list(made.judge.offered(hashed)) == [(2, whole)]
    made.judge.unconsumed.add(2)
    assert list(made.judge.offered(hashed)) == []


@pytest.mark.parametrize("column", [0, 1])
def test_what_a_step_hands_over_is_named_by_the_ledger(column):
    made = watched()
    assert made.judge.poison(both()) == [1, 2, 3, 4, 7, 8]
    assert made.judge.fresh_attention == [5, 6, 9]
    assert made.ledger.block("r0", 0, column) == column + 1
    assert np.array(made.rank.tables.persistent[0]).sum() == 0
