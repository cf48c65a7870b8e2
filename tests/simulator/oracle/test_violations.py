"""A violation says where it was, is the same wherever it is told in other words, and travels as JSON; marks count."""

import msgspec
import pytest

from stalerow.simulator.oracle.violations import ENGINE, MARKS, Marks, Race, Racer, Violation

STORE = Racer((0, 1, 0), 2, "store", 4, "copy_triton.py:88")
LOAD = Racer((1, 0, 0), 0, "load", 1, "copy_triton.py:81")


def violation(**given) -> Violation:
    made = {"kind": "wrong position", "rank": 1, "launch": "precopy", "step": 3, "during": 5, "explanation": "it is"}
    return Violation(**made | given)


def test_a_violation_of_no_rank_is_the_engines():
    assert violation().place == "on rank 1"
    assert violation(rank=ENGINE).place == "in the engine"


@pytest.mark.parametrize(
    ("field", "same"),
    [
        *((name, False) for name in ("rank", "step", "during", "source_block", "target_block")),
        *((name, True) for name in ("layer", "group")),
    ],
)
def test_two_runs_failed_alike_where_kind_launch_steps_and_blocks_agree(field, same):
    assert (violation().identity() == violation(**{field: 7}).identity()) is same


def test_other_words_and_owners_are_the_same_failure():
    assert violation(explanation="or so", target_owner="r1", bytes_of="zeros").identity() == violation().identity()
    assert violation(kind="stale slot").identity() != violation().identity()
    assert violation(launch="forward").identity() != violation().identity()


@pytest.mark.parametrize("race", [msgspec.UNSET, Race("copy", STORE, LOAD, "of block 3", 3)])
def test_it_survives_json(race):
    made = violation(race=race)
    text = msgspec.json.encode(made)
    assert msgspec.json.decode(text, type=Violation) == made
    assert (b"race" in text) is (race is not msgspec.UNSET)


def test_a_racer_says_which_warp_did_what_to_how_many_bytes():
    assert str(STORE) == "program (0, 1, 0) warp 2 stores 4 bytes at copy_triton.py:88"
    assert LOAD.does == "loads 1 byte at copy_triton.py:81"


def test_marks_add_up_and_leave_out_what_did_not_happen():
    marks = Marks()
    marks.add("prefix hit")
    marks.add("prefix hit", 2)
    marks.add("preemption", 0)
    assert marks == {"prefix hit": 3}


def test_every_mark_has_a_name_of_its_own():
    assert len({*MARKS}) == len(MARKS)
