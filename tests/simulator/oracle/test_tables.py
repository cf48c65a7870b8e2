"""Block tables and lengths: a launch that changes an entry which is none of its business is named, with the entry."""

from contextlib import suppress

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.oracle.tables import Tables, WrongEntry
from stalerow.simulator.rank.operations import (
    BlockCounts,
    CommitRows,
    Forward,
    Gather,
    Indices,
    Operation,
    Postprocess,
    Precopy,
    Preprocess,
    Writes,
)

from .damaging import Seen, schedules, watched

HEALTHY = kernel_set("reference:req-idx")
ARRAYS = ("block table 0", "gathered block table 0", "block counts", "lengths")


def entries(kind: type[Operation], array: str, runner: str = "v2") -> list[WrongEntry]:
    """What is told of the first launch of its kind after which the last entry of an array is one more."""
    told: list[WrongEntry] = []

    def observe(simulation, actor, done):
        if not isinstance(done, kind):
            return
        rank = simulation.ranks[int(actor.removeprefix("device"))]
        tables = Tables(rank)
        tables._held()[array][-1, -1] += 1
        told.extend(tables.after(done))
        raise Seen

    simulation = watched(next(schedules(HEALTHY, 0, runner)), HEALTHY, observe)
    with suppress(Seen):
        simulation.run()
    return told


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("kind", [Preprocess, Precopy, Indices, Forward, Postprocess])
def test_a_launch_that_writes_no_table_is_told_of_an_entry_that_it_changed(kind, array):
    (entry,) = entries(kind, array)
    assert (entry.array, entry.got, entry.meant) == (array, entry.wanted + 1, False)


@pytest.mark.parametrize(
    ("kind", "array"),
    [(Writes, "block table 0"), (BlockCounts, "block counts"), (Gather, "gathered block table 0"), (Gather, "lengths")],
)
def test_a_launch_may_write_what_it_is_for(kind, array):
    assert entries(kind, array) == []


def test_under_runner_v1_lengths_are_made_with_the_indices_and_tables_are_one():
    assert entries(Indices, "lengths", "v1") == []
    assert [entry.array for entry in entries(CommitRows, "lengths", "v1")] == ["lengths"]
    assert [entry.array for entry in entries(Forward, "block table 0", "v1")] == ["block table 0"]
