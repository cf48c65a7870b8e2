"""How a rank stands, in lines: what its device has to do, its slots and tables, and the blocks of each request."""

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.state import state
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers.given import GivenOrder

SCHEDULE = catalogue()["stale-row"].schedule


class Reached(Exception):
    """The run has come to where a test looks."""


def stopped(after: int) -> Simulation:
    """A simulation after so many events."""
    seen = 0

    def count(simulation, actor, done):
        nonlocal seen
        seen += 1
        if seen == after:
            raise Reached

    made = Simulation(SCHEDULE, kernel_set("reference:req-idx"), GivenOrder(SCHEDULE.order), observer=count)
    with pytest.raises(Reached):
        made.run()
    return made


def test_before_anything_has_run_there_is_nothing_to_do():
    engine, first, _ = state(stopped(1))
    assert engine == "engine   1 steps scheduled, in flight [1]"
    assert first.splitlines()[:3] == [
        "rank 0   device has to do: nothing",
        "    host has to take steps 1",
        "  gathered table: never",
    ]


def test_what_is_queued_is_listed_by_step():
    simulation = stopped(2)
    part = state(simulation)[1]
    queued = [operation.kind for operation in simulation.ranks[0].queue.pending()]
    assert "rank 0   device has to do:\n" in part
    assert f"    step 1: {', '.join(queued)}\n" in part
    assert "host has to take" not in part


def test_slots_tables_and_columns_are_those_of_the_rank():
    simulation = stopped(150)
    for rank, judge, part in zip(simulation.ranks, simulation.judges, state(simulation)[1:]):
        assert judge.ledger.columns
        assert f"gathered table: batch of step {rank.gathered_step}" in part
        for request, columns in judge.ledger.columns.items():
            told = " | ".join(" ".join(map(str, ids)) or "-" for ids in columns)
            assert f"    {request}: {told}" in part
            slot = rank.slot_index(request)
            if slot is not None:
                columns, computed = (rank.backend.to_host(a) for a in (rank.slots.state_idx, rank.slots.num_computed))
                assert f"  slot {slot} {request}: state_idx {columns[slot]}, " in part
                assert f"num_computed {computed[slot]}, total_len" in part


def test_the_engine_says_what_it_waits_for():
    simulation = stopped(150)
    waits = simulation.engine.awaited is not None
    assert ("waiting for the oldest step's output" in state(simulation)[0]) is waits
