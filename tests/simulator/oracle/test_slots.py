"""Numbers by slot: a launch must write what follows for its requests, and leave all others as they were."""

import numpy as np
import pytest
from small import PREFILL, VERIFY, admitted, new, planner

from stalerow.simulator.oracle.expected import Held
from stalerow.simulator.oracle.slots import Slots, WrongNumber
from stalerow.simulator.rank.batch import Batch
from stalerow.simulator.rank.operations import Advance, Postprocess, PostUpdate, Preprocess, Seat, Seed, Taken, Zero

SLOT, OTHER = 1, 0


def numbers() -> Held:
    zero = np.zeros(3, np.int32)
    held = Held(*(zero.copy() for _ in range(5)), np.zeros((3, 40), np.int64), zero.copy(), zero.copy())
    held.state_idx[:], held.num_accepted[:], held.src_col[:] = -1, 1, -1
    return held


class Rank:
    """Numbers that a test changes, and their judge once r0 is seeded in `SLOT`."""

    def __init__(self) -> None:
        self.planner, self.ledger, self.held = planner(), admitted(), numbers()
        self.planner.plan(PREFILL)
        self.planner.plan(VERIFY)
        self.judge = Slots(self.held, self.planner, self.ledger)
        seats = (Seat(SLOT, new("r0", ((1,), (5,))), None),)
        assert self.after(Seed(step=1, run=int, seats=seats), 1) == []

    def after(self, operation, step: int) -> list[WrongNumber]:
        return list(self.judge.after(operation, self.held, [self.planner.plans[step].rows["r0"]]))

    def batch(self, step: int) -> Batch:
        none = np.zeros(1, bool)
        return Batch(step, (), ("r0",), np.array([SLOT]), np.zeros(4, np.int32), none, none, 1)

    def output(self, step: int) -> Taken:
        return Taken(step, ("r0",), ("r0",), np.array([SLOT]), {SLOT: "r0"})

    def prefilled(self) -> None:
        """Every launch of the prefill, done rightly."""
        self.held.state_idx[SLOT] = 1
        assert self.after(Preprocess(step=1, run=int, batch=self.batch(1)), 1) == []
        self.held.num_computed[SLOT] = 6
        assert self.after(Advance(step=1, run=int, batch=self.batch(1)), 1) == []
        self.held.total_len[SLOT], token = 7, self.planner.streams["r0"].slice(6, 7)[0]
        self.held.last_token[SLOT] = self.held.token_ids[SLOT, 6] = token
        assert self.after(PostUpdate(step=1, run=int, output=self.output(1)), 1) == []
        assert self.after(Postprocess(step=1, run=int, output=self.output(1)), 1) == []


def test_a_healthy_prefill_is_silent():
    Rank().prefilled()


def test_a_launch_that_does_not_write_its_number_is_blamed():
    rank = Rank()
    assert rank.after(Preprocess(step=1, run=int, batch=rank.batch(1)), 1) == [
        WrongNumber(SLOT, "r0", "state_idx", -1, 1, True)
    ]
    assert rank.judge.told == {("r0", "state_idx")}


def test_what_is_wrong_already_is_told_once():
    rank = Rank()
    rank.after(Preprocess(step=1, run=int, batch=rank.batch(1)), 1)
    assert rank.after(Zero(step=1, run=int, blocks=()), 1) == []


@pytest.mark.parametrize("name", [name for name in Held._fields if name != "token_ids"])
def test_a_launch_that_changes_a_number_that_it_has_nothing_to_do_with_is_blamed(name):
    rank = Rank()
    rank.prefilled()
    getattr(rank.held, name)[SLOT] += 1
    (wrong,) = rank.after(Zero(step=2, run=int, blocks=()), 2)
    assert (wrong.slot, wrong.request, wrong.name, wrong.meant) == (SLOT, "r0", name, False)
    assert wrong.got == wrong.wanted + 1


def test_slots_that_nobody_holds_may_hold_anything():
    rank = Rank()
    rank.held.num_computed[OTHER] = 77
    assert rank.after(Zero(step=1, run=int, blocks=()), 1) == []


def test_a_wrong_token_in_the_middle_is_found():
    rank = Rank()
    rank.prefilled()
    token = int(rank.held.token_ids[SLOT, 6])
    rank.held.token_ids[SLOT, 6] ^= 1
    assert rank.after(Zero(step=2, run=int, blocks=()), 2) == [
        WrongNumber(SLOT, "r0", "token_ids", token ^ 1, token, False)
    ]


def test_a_moving_column_asks_precopy_for_the_accepted_state():
    rank = Rank()
    rank.prefilled()
    rank.held.state_idx[SLOT], rank.held.src_col[SLOT], rank.held.src_off[SLOT] = 2, 1, 0
    assert rank.after(Preprocess(step=2, run=int, batch=rank.batch(2)), 2) == []
    rank.held.src_col[SLOT] = 0
    assert [w.name for w in rank.after(Zero(step=2, run=int, blocks=()), 2)] == ["src_col"]
