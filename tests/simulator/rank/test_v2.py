"""Runner V2: a step's phases in the release's order, persistent slots, and outputs that others take P steps late."""

import numpy as np
import pytest
from one_rank import BLOCKS, OTHERS, both, drain, hand, known, rank, row
from small import more, new, step

from stalerow.simulator.rank.operations import Forward, Postprocess, PostUpdate, Writes
from stalerow.simulator.rank.policy import RankPolicy

PREPARED = ["free", "admit", "seed", "zero", "writes", "block_counts"]
TO_THE_BATCH = [*PREPARED, "gather", "preprocess", "precopy", "indices", "forward"]


def verify(number: int, *requests: str, **given):
    """The requests' verification step, two drafts each."""
    return step(number, tuple(row(r, 3, 2, 6) for r in requests), **given)


def batch_of(made):
    return [operation.batch for operation in made.queue.pending() if isinstance(operation, Forward)][-1]


def test_a_last_rank_samples_and_takes_its_own_output_at_once():
    assert hand(rank(pp=1), both()) == [*TO_THE_BATCH, "sample", "post_update", "postprocess"]
    assert hand(rank(index=1), both()) == [*TO_THE_BATCH, "sample", "post_update", "postprocess"]


def test_another_rank_counts_ahead_and_takes_the_output_of_p_steps_before():
    made = rank()
    assert hand(made, both()) == [*TO_THE_BATCH, "advance"]
    assert hand(made, step(2)) == ["free", "admit", "block_counts"]
    third = hand(made, verify(3, "r0", "r1"))
    assert third[:3] == ["post_update", "postprocess", "free"]
    (taken,) = [o for o in made.queue.pending() if isinstance(o, PostUpdate)]
    assert (taken.step, taken.batch_step, taken.output.kept) == (3, 1, ("r0", "r1"))
    assert not taken.ready()
    made.wires.received.add(1)
    assert taken.ready()


def test_sampled_tokens_are_broadcast_where_another_rank_waits_for_them():
    alone, last = rank(pp=1), rank(index=1)
    hand(alone, both())
    hand(last, both())
    assert not alone.side
    assert [operation.kind for operation in last.side.pending()] == ["broadcast"]
    assert not last.side.runnable()
    unneeded = rank(index=1)
    hand(unneeded, step(1, (row("r0", 4, samples=False),), new=(new("r0", BLOCKS),)))
    assert not unneeded.side


def test_the_output_of_a_request_that_has_left_is_masked():
    made = rank()
    hand(made, both())
    hand(made, step(2, finished=("r0",)))
    assert "post_update" in hand(made, step(3))
    output = next(o for o in made.queue.pending() if isinstance(o, Postprocess)).output
    assert (output.requests, output.kept) == (("r0", "r1"), ("r1",))
    gone = rank()
    hand(gone, both())
    hand(gone, step(2, finished=("r0", "r1")))
    assert "post_update" not in hand(gone, step(3))


def test_appended_blocks_go_behind_those_that_are_there():
    made = rank()
    hand(made, step(1, (row("r0", 4, samples=False),), new=(new("r0", ((1,), (5,))),)))
    hand(made, step(2, (row("r0", 2, computed=4),), cached=(more("r0", ((2, 3), ())),)))
    writes = [o.writes for o in made.queue.pending() if isinstance(o, Writes)]
    slot = made.slot_index("r0")
    assert [(w.group, w.slot, w.start, tuple(w.ids)) for w in writes[1]] == [(0, slot, 1, (2, 3))]
    assert made.block_counts[0][slot] == 3
    assert made.block_counts[1][slot] == 1


def test_a_slot_keeps_its_request_and_the_batch_its_own_order():
    made = rank()
    hand(made, both())
    slots = [made.slot_index("r0"), made.slot_index("r1")]
    hand(made, step(2, (row("r0", 1, 0, 6), row("r1", 3, 2, 6))))
    batch = batch_of(made)
    assert batch.requests == ("r1", "r0")
    assert batch.slots.tolist() == slots[::-1]
    assert batch.query_start_loc[:4].tolist() == [0, 3, 4, 4]


@pytest.mark.parametrize(("tokens", "computed", "spec", "needed"), [(4, 0, False, False), (6, 0, False, True)])
def test_a_prefill_needs_its_output_from_its_last_chunk_on(tokens, computed, spec, needed):
    made = rank()
    hand(made, step(1, (row("r0", tokens, 0, computed, needed),), new=(new("r0", BLOCKS),)))
    assert (batch_of(made).is_spec.tolist(), batch_of(made).needs_output.tolist()) == ([spec], [needed])


@pytest.mark.parametrize(("first", "spec"), [(5, True), (0, False)])
def test_a_prompts_tail_of_one_token_runs_as_a_verification_row_behind_a_prefix(first, spec):
    made = rank()
    blocks = new("r0", BLOCKS)
    if first:
        hand(made, step(1, (row("r0", first, samples=False),), new=(blocks,)))
        hand(made, step(2, (row("r0", 1, 0, first),), cached=(known("r0", first),)))
    else:
        hand(made, step(1, (row("r0", 1, samples=False),), new=(blocks,)))
    assert batch_of(made).is_spec.tolist() == [spec]


def test_a_prefill_beside_others_that_needs_no_sample_counts_one_accepted_token():
    made = rank()
    kinds = hand(made, step(1, (row("r0", 4, samples=False), row("r1", 6)), new=both().new))
    assert kinds[-2:] == ["advance", "fill_accepted"]


def test_a_uniform_decode_batch_runs_padded():
    made = rank(graph_sizes=(4,))
    hand(made, both())
    assert batch_of(made).num_padded == 2
    hand(made, verify(2, "r0", "r1", cached=(known("r0", 6), known("r1", 6))))
    assert batch_of(made).num_padded == 4


def test_tables_are_gathered_by_batch_row():
    made = rank(pp=1)
    hand(made, both())
    drain(made)
    order = made.wires.sampled[1].requests
    blocks = {"r0": BLOCKS, "r1": OTHERS}
    for line, request in enumerate(order):
        own = blocks[request][0]
        assert np.array(made.tables.gathered[0])[line, : len(own)].tolist() == list(own)
    assert made.gathered_step == 1


def test_a_policy_may_save_states_after_the_next_batch():
    class Late(RankPolicy):
        late_postprocess = True

    made = rank(policy=Late)
    hand(made, both())
    hand(made, step(2))
    third = hand(made, verify(3, "r0", "r1"))
    assert third[0] == "post_update"
    assert third[-1] == "postprocess"
