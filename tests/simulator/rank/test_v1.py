"""Runner V1: batch rows are the persistent index, condensed as requests leave, and the host waits for the device."""

import numpy as np
import pytest
from one_rank import BLOCKS, OTHERS, both, drain, hand, known, rank, row
from small import new, step

from stalerow.simulator.rank.operations import CommitRows, Forward, Postprocess
from stalerow.simulator.rank.v1 import RankV1


def prefilled():
    """A rank that has run the prefill of both requests."""
    made = rank(RankV1, pp=1)
    hand(made, both())
    drain(made)
    return made


def of_kind(made, kind):
    return [operation for operation in made.queue.pending() if isinstance(operation, kind)][-1]


def test_everything_of_a_step_is_done_within_it():
    made = rank(RankV1, pp=1)
    launches = ["free", "admit", "zero", "writes", "rows", "precopy", "indices", "forward", "sample"]
    assert hand(made, both()) == [*launches, "scatter_accepted", "postprocess"]
    output = of_kind(made, Postprocess).output
    assert (output.of, output.kept, output.slots.tolist()) == (1, ("r0", "r1"), [0, 1])


def test_the_host_waits_until_the_device_has_run_everything():
    made = rank(RankV1, pp=1)
    hand(made, both())
    made.inbox.append(step(2))
    assert not made.host_ready()
    drain(made)
    assert made.host_ready()


def test_one_table_serves_the_kernels_and_the_forward():
    made = prefilled()
    assert made.tables.gathered is made.tables.persistent
    for index, blocks in enumerate((BLOCKS, OTHERS)):
        assert np.array(made.tables.persistent[0])[index, : len(blocks[0])].tolist() == list(blocks[0])


def test_a_row_that_is_not_scheduled_leaves_a_hole_for_a_newcomer_or_the_last_row():
    made = rank(RankV1, pp=1)
    admitted = new("r0", BLOCKS), new("r1", OTHERS), new("r2", ((10,), (11,)))
    hand(made, step(1, tuple(row(f"r{i}", 2, samples=False) for i in range(3)), new=admitted))
    assert made.batch_rows == ["r0", "r1", "r2"]
    hand(made, step(2, (row("r1", 1, 0, 2, False), row("r2", 1, 0, 2, False))))
    assert made.batch_rows == ["r2", "r1"]
    hand(made, step(3, (row("r1", 1, 0, 3, False), row("r0", 1, 0, 2, False))))
    assert made.batch_rows == ["r0", "r1"]
    hand(made, step(4, (row("r0", 1, 0, 3, False), row("r1", 1, 0, 4, False), row("r2", 1, 0, 3, False))))
    assert made.batch_rows == ["r0", "r1", "r2"]


def test_long_rows_come_last():
    made = rank(RankV1, pp=1)
    hand(made, step(1, (row("r0", 6), row("r1", 3, samples=False)), new=both().new))
    assert made.batch_rows == ["r1", "r0"]


def test_accepted_counts_come_back_to_the_host_before_the_next_step():
    made = prefilled()
    hand(made, step(2, (row("r0", 3, 2, 6), row("r1", 3, 2, 6)), cached=(known("r0", 6), known("r1", 6))))
    drain(made)
    assert made.known["r0"].accepted == 1
    made.slots.num_accepted[:2] = [2, 3]
    hand(made, step(3, (row("r0", 3, 2, 8),), cached=(known("r0", 8),)))
    assert made.known["r1"].accepted == 3


def test_a_moving_column_asks_for_a_copy_of_the_accepted_state():
    made = prefilled()
    made.slots.num_accepted[0] = 2
    hand(made, step(2, (row("r0", 3, 2, 6),), cached=(known("r0", 6),)))
    for operation in list(made.queue.pending()):
        made.execute()
        if isinstance(operation, CommitRows):
            break
    slots = made.slots
    assert (slots.state_idx[0], slots.src_col[0], slots.src_off[0], slots.num_accepted[0]) == (2, 1, 1, 1)
    assert slots.num_computed[0] == 6


@pytest.mark.parametrize(("tokens", "samples", "needed"), [(4, False, False), (6, True, True)])
def test_a_prefill_needs_its_output_from_its_last_chunk_on(tokens, samples, needed):
    made = rank(RankV1, pp=1)
    hand(made, step(1, (row("r0", tokens, samples=samples),), new=(new("r0", BLOCKS),)))
    batch = of_kind(made, Forward).batch
    assert (batch.is_spec.tolist(), batch.needs_output.tolist()) == ([False], [needed])


def test_appended_blocks_go_behind_those_that_are_there():
    made = prefilled()
    hand(made, step(2, (row("r1", 3, 2, 6),), cached=(known("r1", 6, ((10,), ())),)))
    drain(made)
    assert np.array(made.tables.persistent[0])[0, :3].tolist() == [7, 8, 10]


def test_a_request_that_left_is_known_no_more():
    made = prefilled()
    hand(made, step(2, finished=("r0",)))
    assert {*made.known} == {"r1"}
    assert made.slot_index("nobody") is None
    assert made.slot_index("r1") == 1
