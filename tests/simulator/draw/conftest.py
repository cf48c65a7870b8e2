"""Recorded runs that the tests of the screens look at: the seed bug with row lookup and with slot lookup.

What the tests of ranks, of the oracle and of serving have made by hand is importable.
"""

import sys
from pathlib import Path

import msgspec
import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.record import Record
from stalerow.simulator.draw.recorder import recorded
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("rank", "oracle", "serve")]


def record_of(kernels: str, schedule=None) -> Record:
    schedule = catalogue()["stale-row"].schedule if schedule is None else schedule
    return recorded(schedule, Subject(kernels=kernels).run, kernels)


@pytest.fixture(scope="session")
def seed_bug() -> Record:
    """The seed bug: row 0 of step 6 is r3's, and step 7's table has r4 in it."""
    return record_of("reference:batch-row")


@pytest.fixture(scope="session")
def fixed() -> Record:
    """The same schedule with slot lookup."""
    return record_of("reference:req-idx")


def busy(pp: int, requests: int, max_steps: int) -> Schedule:
    """The scenario's layout with many requests, over `pp` ranks, stopped after so many steps."""
    schedule = catalogue()["stale-row"].schedule
    first = schedule.requests[0]
    many = tuple(
        msgspec.structs.replace(first, id=f"q{i}", arrival=1 + i, stream=i, max_tokens=18, accepted=(i % 2, 1))
        for i in range(requests)
    )
    limits = msgspec.structs.replace(schedule.limits, max_steps=max_steps)
    pipeline = msgspec.structs.replace(schedule.pipeline, pp=pp)
    return msgspec.structs.replace(schedule, requests=many, limits=limits, pipeline=pipeline)


@pytest.fixture(scope="session")
def long_run() -> Record:
    """At least 2,000 events over four ranks."""
    return record_of("reference:req-idx", busy(4, 12, 60))
