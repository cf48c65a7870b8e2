"""A saved failure run again: the verdict on it."""

import msgspec
import pytest

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.again import Again, Replayed, do
from stalerow.simulator.campaign.failures import Failure
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")


@pytest.fixture(scope="module")
def failure() -> Failure:
    schedule = from_seed(7)
    outcome = SUBJECT.run(schedule)
    first = outcome.violations[0]
    return Failure(kind=first.kind, subject=SUBJECT, violation=first, digest=outcome.digest, schedule=schedule)


def again(failure: Failure, **changes) -> Replayed:
    return do(Again("x.json", msgspec.structs.replace(failure, **changes)))


def test_what_still_fails_so_is_told(failure):
    made = again(failure)
    assert (made.verdict, made.was, made.now, made.digest) == (
        "fails in the same way", failure.kind, failure.kind, failure.digest
    )  # fmt: skip
    assert made.fails


@pytest.mark.parametrize("changed", [{"kind": "leak"}, {"launch": "seed"}])
def test_another_kind_or_launch_is_another_failure(failure, changed):
    made = again(failure, violation=msgspec.structs.replace(failure.violation, **changed))
    assert made.verdict == "fails differently"
    assert made.fails


def test_what_is_clean_now_no_longer_fails(failure):
    made = again(failure, subject=Subject(kernels="reference:req-idx"))
    assert (made.verdict, made.now, made.violations) == ("no longer fails", "", ())
    assert not made.fails
    assert failures.CRASH not in made.verdict
