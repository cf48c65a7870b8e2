"""The numbers that a request's own plan asks for, before a forward and after an output."""

import numpy as np
from small import PREFILL, VERIFY, admitted, planner, step

from stalerow.simulator.oracle.expected import Counts, after_output, before_forward
from stalerow.simulator.rank.operations import Taken


def taken(of: int, kept: tuple[str, ...] = ("r0",), held: dict[int, str] | None = None) -> Taken:
    return Taken(of, ("r0",), kept, np.array([3]), held or {})


def planned():
    made = planner()
    made.plan(PREFILL)
    made.plan(VERIFY)
    return made


def test_before_its_first_forward_a_request_says_only_how_much_is_computed():
    made = planned()
    assert before_forward(made, made.plans[1].rows["r0"]) == Counts(0, None, None)


def test_before_the_next_one_it_knows_the_token_that_was_sampled():
    made = planned()
    assert before_forward(made, made.plans[2].rows["r0"]) == Counts(6, 7, made.streams["r0"].slice(6, 7)[0])


def test_after_an_output_rejected_drafts_are_taken_back_and_the_last_token_is_the_last_accepted():
    made = planned()
    (outcome,) = after_output(made, admitted(), taken(2))
    assert outcome.slot == 3
    assert outcome.counts == Counts(8, 9, made.streams["r0"].slice(8, 9)[0])
    assert outcome.taken_by is None


def test_a_masked_row_is_expected_to_change_nothing():
    (outcome,) = after_output(planned(), admitted(), taken(2, kept=()))
    assert outcome.counts is None
    assert outcome.taken_by is None


def test_a_row_of_a_request_that_has_left_is_the_slots_new_owners():
    ledger = admitted()
    ledger.take_frees(step(3, finished=("r0",)))
    (outcome,) = after_output(planned(), ledger, taken(2, held={3: "r1"}))
    assert outcome.counts is None
    assert outcome.taken_by == "r1"
