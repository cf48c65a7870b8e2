"""A wrong number is told by its name, its request and whether the launch was to write it; indices by their block."""

import numpy as np
import pytest
from judged import prefilled, verifying
from one_rank import OTHERS

from stalerow.simulator.oracle.expected import held
from stalerow.simulator.oracle.explain.slots import TOLD, wrong_indices, wrong_number, wrong_slots
from stalerow.simulator.oracle.slots import WrongNumber
from stalerow.simulator.rank.operations import PostUpdate, Taken, Zero


def test_every_array_has_a_name_and_a_kind():
    made = prefilled()
    assert {*TOLD} == {*held(made.rank)._fields}


def test_a_foreign_number_is_told_from_what_to_what():
    found = wrong_number(1, Zero(step=4, run=int, blocks=()), WrongNumber(2, "r0", "num_computed", 9, 6, False))
    assert (found.kind, found.launch, found.request) == ("rank divergence", "zero", "r0")
    assert found.explanation == "zero of step 4 on rank 1 changed num_computed_tokens of r0, in slot 2, from 6 to 9"


def test_a_number_that_the_launch_was_to_write_is_told_beside_the_requests_own():
    wrong = WrongNumber(2, "r0", "state_idx", 1, 2, True)
    assert wrong_number(0, Zero(step=4, run=int, blocks=()), wrong).explanation == (
        "zero of step 4 on rank 0 left running column 1 for r0; the request's own value is 2"
    )
    output = PostUpdate(step=4, run=int, output=Taken(2, (), (), np.array([]), {}))
    assert wrong_number(0, output, wrong).explanation == (
        "the output of step 2 for r0 on rank 0 left running column 1; the request's own value is 2"
    )


def slots_of(change=lambda numbers, slot: None, told=()) -> list:
    """What is found just before the forward of a verification step."""
    made, forward = verifying("forward")
    numbers = held(made.rank)
    change(numbers, made.rank.slot_index("r0"))
    rows = [made.planner.plans[2].rows["r0"]]
    return list(wrong_slots(0, numbers, made.planner, forward.batch, rows, {*told}))


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        *(("state_idx", "stale slot"), ("num_accepted", "stale slot"), ("num_computed", "rank divergence")),
        *(("total_len", "rank divergence"), ("last_token", "rank divergence")),
    ],
)
def test_a_number_that_a_forward_is_about_to_use_is_checked_unless_it_was_told(array, kind):
    def change(numbers, slot):
        getattr(numbers, array)[slot] += 1

    assert slots_of() == []
    (found,) = slots_of(change)
    assert (found.kind, found.launch, found.step, found.request) == (kind, "forward", 2, "r0")
    assert f"holds {TOLD[array][1]} " in found.explanation
    assert slots_of(change, [("r0", array)]) == []


@pytest.mark.parametrize(
    ("span", "block", "kind"),
    [
        (0, OTHERS[0][0], "cross-request copy"),
        (1, 1, "wrong position"),
        (0, 10, "use after free"),
        (1, 0, "uninitialised read"),
    ],
)
def test_an_index_of_another_block_is_told_by_whose_it_is(span, block, kind):
    made, head = verifying("indices")
    made.rank.execute()
    rows = [made.planner.plans[2].rows["r0"]]
    assert list(wrong_indices(made.rank, made.ledger, made.evidence, head, rows)) == []
    own = int(made.rank.state_indices[0, 0, span])
    made.rank.state_indices[0, 0, span] = block
    (found,) = wrong_indices(made.rank, made.ledger, made.evidence, head, rows)
    assert (found.kind, found.source_block, found.request) == (kind, block, "r0")
    assert found.explanation.endswith(f"after {span} draft{'s' * (span != 1)}; its own is block {own}")


def test_an_index_from_a_wrong_table_is_the_tables_fault():
    made, head = verifying("indices")
    made.rank.tables.gathered[0][0, 2] = 10
    made.rank.execute()
    rows = [made.planner.plans[2].rows["r0"]]
    assert list(wrong_indices(made.rank, made.ledger, made.evidence, head, rows)) == []
