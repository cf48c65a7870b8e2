"""What is wrong although no byte is yet, in words that name who was early, late or gone."""

import dataclasses

import msgspec
import numpy as np
import pytest
from judged import VERIFY, prefilled
from small import step

from stalerow.simulator.oracle.expected import after_output
from stalerow.simulator.oracle.explain.bookkeeping import (
    after_overwriting,
    bound_to_the_dead,
    early_fills,
    misplaced_output,
)
from stalerow.simulator.oracle.explain.wording import violation
from stalerow.simulator.rank.operations import PostUpdate, Taken, Zero


def zero(number: int, *blocks: int) -> Zero:
    return Zero(step=number, run=int, blocks=blocks)


def late(held: dict[int, str]) -> PostUpdate:
    """The first step's output for r0, taken in step 3 from slot 2."""
    return PostUpdate(step=3, run=int, output=Taken(1, ("r0",), ("r0",), np.array([2]), held))


@pytest.mark.parametrize(("held", "found"), [({2: "r1"}, 1), ({}, 0)])
def test_an_output_is_misplaced_where_another_request_has_the_slot(held, found):
    made, operation = prefilled(), late(held)
    made.ledger.take_frees(step(2, finished=("r0",)))
    told = list(misplaced_output(0, operation, after_output(made.planner, made.ledger, operation.output)))
    assert len(told) == found
    if told:
        assert (told[0].kind, told[0].step, told[0].during, told[0].request) == ("stale slot", 1, 3, "r0")
        assert told[0].explanation == (
            "the output of step 1 for r0 on rank 0 was written to slot 2, which it has left and r1 has taken"
        )


def early(blocks: tuple[int, ...], *overtaken, **leaving) -> list:
    made = prefilled()
    return list(early_fills(0, made.ledger, step(2, **leaving), zero(2, *blocks), blocks, overtaken))


def test_fills_of_owned_blocks_are_early_and_of_free_ones_are_not():
    (found,) = early((5, 10))
    assert (found.kind, found.target_block, found.target_owner) == ("use after free", 5, "r0 (group 1, column 0)")
    assert "while work of r0 (group 1, column 0) is still queued" in found.explanation


def test_an_owner_that_leaves_in_the_step_is_said_to():
    (found,) = early((5,), finished=("r0",))
    assert "r0 (group 1, column 0), which leaves in this step, is still queued" in found.explanation
    assert "which leaves" not in early((5,), finished=("r1",))[0].explanation


def test_what_a_fill_went_past_is_counted():
    assert early((5,), late({}))[0].explanation.endswith(": it overtook deferred post_update of step 1")
    three = early((5,), late({}), zero(2), zero(2))[0].explanation
    assert three.endswith(": it overtook deferred post_update of step 1 and 2 more operations")


def test_a_copy_by_a_dead_binding_is_named_for_it():
    made = prefilled()
    made.hand(VERIFY)
    found = violation(0, made.run("precopy"), "wrong position", "it copied")
    alive = made.evidence()
    assert bound_to_the_dead(alive, found) is found
    text = "it copied; its kernels are bound to a cache that is gone"
    dead = msgspec.structs.replace(found, kind="dead binding", explanation=text)
    assert bound_to_the_dead(dataclasses.replace(alive, dead_binding=True), found) == dead


def test_overwritten_buffers_are_named_in_order():
    found = violation(0, zero(1), "stale slot", "so it is")
    assert after_overwriting((), found) is found
    text = after_overwriting({"rows", "lens"}, found).explanation
    assert text == "so it is; kernels have read staging buffers (lens, rows) after the host overwrote them"
