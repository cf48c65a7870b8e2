"""Launches, rows and bytes in words: which launch, whose row named the block, and what lies where bytes differ."""

import dataclasses

import numpy as np
import pytest
from judged import prefilled, verifying
from one_rank import OTHERS
from small import CONV, LAYOUT, TEMPORAL

from stalerow.simulator.oracle.explain.wording import copying_row, launch, stray_write, violation, writing_rows
from stalerow.simulator.rank.operations import Postprocess, Taken, Zero

ZERO = Zero(step=3, run=int, blocks=())
LATE = Postprocess(step=3, run=int, output=Taken(1, ("r0", "r1"), ("r1",), np.array([3, 2]), {}))


def test_a_launch_is_named_by_the_step_that_it_works_for():
    assert launch(ZERO) == "zero of step 3"
    assert launch(LATE) == "deferred postprocess of step 1"


def test_a_violation_takes_its_steps_from_the_launch():
    found = violation(1, LATE, "stale slot", "it is", request="r0")
    assert (found.rank, found.launch, found.step, found.during, found.deferred) == (1, "postprocess", 1, 3, True)
    assert (found.explanation, found.request) == ("it is", "r0")
    assert not violation(1, ZERO, "stale slot", "it is").deferred


def test_the_row_that_holds_both_blocks_is_found_in_the_table_that_is_looked_up():
    evidence = prefilled().evidence()
    assert copying_row(evidence, LATE, 0, 1, 2) == "slot 3 for row 0 (r0, masked)"
    assert copying_row(evidence, LATE, 0, 7, 8) == "slot 2 for row 1 (r1)"
    assert copying_row(evidence, LATE, 0, 1, 8) == ""
    assert copying_row(dataclasses.replace(evidence, by_slot=False), LATE, 0, 7, 8) == "row 1 (r1)"


def test_rows_that_write_a_block_are_those_whose_indices_name_it():
    made, forward = verifying("forward", graph_sizes=(4,))
    made.rank.state_indices[0, :4] = 0
    made.rank.state_indices[0, 0] = [3, 4, 0]
    made.rank.state_indices[0, 2, 0] = 4
    evidence = made.evidence()
    assert list(writing_rows(evidence, forward, 4)) == [(0, "r0"), (2, "")]
    assert list(writing_rows(evidence, forward, 9)) == []


def strayed(block: int, *offsets: int, kind: str = "precopy"):
    made, operation = verifying(kind)
    wanted = made.pages.copy()
    evidence = made.evidence(wanted)
    actual = wanted.copy()
    actual[0, block, [*offsets]] ^= 1
    return stray_write(evidence, operation, actual)


@pytest.mark.parametrize(
    ("block", "launch_of", "kind"),
    [
        (0, "precopy", "null block write"),
        (10, "precopy", "use after free"),
        (OTHERS[0][0], "precopy", "wrong position"),
        (OTHERS[0][0], "forward", "cross-request copy"),
        (2, "forward", "wrong position"),
    ],
)
def test_a_stray_write_is_told_by_whose_block_it_is(block, launch_of, kind):
    found = strayed(block, 0, kind=launch_of)
    assert (found.kind, found.launch, found.target_block) == (kind, launch_of, block)


def test_the_bytes_are_named_by_their_place_and_by_what_they_hold():
    first = TEMPORAL.offset
    found = strayed(2, first)
    assert f"left byte {first} of block 2 (r0 (group 0, column 1); temporal state 1 of group 0 of layer 0) wrong" in (
        found.explanation
    )
    assert found.explanation.endswith(": it holds a torn mixture and should hold r0 after 6 tokens")
    assert (
        f"left 2 bytes from {CONV.offset} to {CONV.offset + 3} of block 2"
        in strayed(2, CONV.offset, CONV.offset + 3).explanation
    )
    assert "conv state 0 of group 0" in strayed(2, CONV.offset).explanation


def test_attention_bytes_are_named_by_their_token():
    kv = LAYOUT.groups[1].kv_bytes
    assert "KV of token 2 of group 1" in strayed(5, 2 * kv).explanation


def test_bytes_behind_the_last_token_belong_to_no_state():
    spec = LAYOUT.groups[1]
    assert "bytes that belong to no state" in strayed(5, spec.block_size * spec.kv_bytes).explanation
