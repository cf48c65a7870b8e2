"""What both runners share: memory for the widest batch, and operations that take effect when the device gets there."""

import numpy as np
import pytest
from one_rank import BLOCKS, both, drain, hand, rank, row
from small import PREFILL, RECURRENT, step

from stalerow.kernels.base.memory import POISON
from stalerow.simulator.rank.base import PADDED_ROW_BYTE
from stalerow.simulator.rank.operations import Forward, TableWrite


def pages(of) -> np.ndarray:
    return of.pool.pages(of.pool.array)


def test_there_are_rows_for_the_largest_captured_batch():
    assert rank(max_num_seqs=3).max_reqs == 3
    assert rank(max_num_seqs=3, graph_sizes=(2, 8)).max_reqs == 8


def test_what_changes_hands_is_poisoned_when_the_device_gets_to_the_admission():
    made = rank()
    pages(made)[:] = 1
    made.push_admit(PREFILL, ())
    assert (pages(made) == 1).all()
    drain(made)
    poisoned = np.flatnonzero((pages(made) == POISON).all(axis=(0, 2)))
    assert poisoned.tolist() == list(RECURRENT)
    assert (np.delete(pages(made), poisoned, axis=1) == 1).all()


def test_blocks_are_zeroed_before_any_is_copied_and_every_source_is_read_first():
    made = rank()
    pages(made)[:] = np.arange(12)[:, None]
    made.push_zero_and_copies(step(1, zero=(5,), copies=((5, 6), (6, 7))))
    assert [operation.kind for operation in made.queue.pending()] == ["zero", "copy_blocks"]
    drain(made)
    assert pages(made)[0, :8, 0].tolist() == [0, 1, 2, 3, 4, 0, 0, 6]


def test_block_ids_go_to_the_columns_of_their_slot():
    made = rank()
    made.push_table_writes(1, [TableWrite(0, 2, 0, (1, 2)), TableWrite(1, 0, 1, (5,)), TableWrite(0, 2, 2, (3,))])
    assert not made.tables.persistent[0].any()
    drain(made)
    assert made.tables.persistent[0][2, :4].tolist() == [1, 2, 3, 0]
    assert made.tables.persistent[1][0, :3].tolist() == [0, 5, 0]
    made.push_table_writes(2, [])
    assert not made.queue


@pytest.mark.parametrize(("profile", "column"), [("0.33", 1), ("0.34", 9)])
def test_a_buffer_that_is_filled_again_reaches_the_block_ids_only_where_they_are_staged(profile, column):
    made = rank(profile=profile, staging_depth=1)
    made.push_table_writes(1, [TableWrite(0, 0, 0, (1,))])
    made.push_table_writes(2, [TableWrite(0, 0, 0, (9,))])
    made.execute()
    assert made.tables.persistent[0][0, 0] == column


def test_counts_of_blocks_are_written_whole():
    made = rank(max_num_seqs=2)
    made.push_block_counts(1, [[4, 2], [1, 3]])
    drain(made)
    assert np.array(made.tables.num_blocks).tolist() == [[4, 2], [1, 3]]


def test_a_forward_waits_for_the_rank_before_and_leaves_its_own_activations():
    made = rank(index=1)
    hand(made, both())
    drain(made)
    assert made.queue.head().kind == "forward"
    made.wires.activations[0, 1] = np.zeros(2, np.int64)
    drain(made)
    assert {*made.wires.activations} == {(1, 1)}
    assert made.damage.shape == (2, made.num_units)
    assert not made.damage.any()


def test_a_refused_forward_passes_on_what_came_in():
    made = rank(index=1)
    hand(made, both())
    (forward,) = (operation for operation in made.queue.pending() if isinstance(operation, Forward))
    made.wires.activations[0, 1] = np.array([3, 4])
    made.after_failed(forward)
    assert made.wires.activations[1, 1].tolist() == [3, 4]
    assert (0, 1) not in made.wires.activations
    first = rank()
    hand(first, both())
    first.after_failed(next(operation for operation in first.queue.pending() if isinstance(operation, Forward)))
    assert first.wires.activations[0, 1].tolist() == [0, 0]


def test_padded_rows_write_what_their_indices_name_but_not_the_null_block():
    made = rank()
    made.state_indices[:, :3, 0] = [[1, 0, 4]]
    made.write_padded_rows(1, 3)
    changed = np.flatnonzero((pages(made) == PADDED_ROW_BYTE).all(axis=(0, 2)))
    assert changed.tolist() == [4]


def test_the_last_rank_samples_what_the_model_says():
    made = rank(pp=1)
    hand(made, both())
    drain(made)
    out = made.wires.sampled[1]
    first = [made.model.streams[request].slice(6, 7) for request in out.requests]
    assert out.tokens.tolist() == [[*ids, 0, 0] for ids in first]
    assert (out.num_sampled.tolist(), out.num_rejected.tolist()) == ([1, 1], [0, 0])


def test_numbers_of_a_request_are_those_of_its_slot():
    made = rank(pp=1)
    assert made.slot_index("r0") is None
    hand(made, step(1, (row("r0", 6),), new=(both().new[0],)))
    drain(made)
    slot = made.slot_index("r0")
    told = [made.slots.state_idx, made.slots.num_accepted, made.slots.num_computed]
    assert [int(made.backend.to_host(numbers)[slot]) for numbers in told] == [1, 1, 6]
    assert BLOCKS[0][1] == made.state_indices[0, 0, 0]
