"""The trace through Perfetto's own trace processor, asked in SQL."""

import pytest

from stalerow.simulator.draw.record import Executed, Scheduled
from stalerow.simulator.draw.trace import trace

from .perfetto_session import trace_processors

THREADS = """
select process.name as process, thread.name as thread, count(*) as slices from slice
join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
group by process, thread order by process, thread
"""
FLOWS = """
select a.name as source, b.name as target, ap.name as source_process, bp.name as target_process from flow
join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id
join thread_track at on a.track_id = at.id join thread ath on at.utid = ath.utid join process ap on ath.upid = ap.upid
join thread_track bt on b.track_id = bt.id join thread bth on bt.utid = bth.utid join process bp on bth.upid = bp.upid
"""


@pytest.fixture(scope="module")
def loaded(seed_bug):
    with trace_processors() as load:
        yield load(trace(seed_bug))


def test_it_is_read_without_a_complaint(loaded):
    assert loaded.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []


def test_processes_and_threads_are_ranks_and_streams(loaded):
    found = {(r["process"], r["thread"]) for r in loaded.query(THREADS) if r["thread"] != "first violation"}
    assert found == {
        ("engine", "engine"),
        ("rank 0", "host"),
        ("rank 0", "main stream"),
        ("rank 1", "host"),
        ("rank 1", "main stream"),
        ("rank 1", "side stream"),
    }


def test_processes_name_the_first_violation_before_anything_is_unfolded(loaded):
    names = [r["process"] for r in loaded.query(THREADS) if r["thread"] == "first violation"]
    assert sorted(names) == [
        "FOUND cross-request copy |",
        "block 8 to 11, meant 8 to 6 |",
        "for r3, touched r4 |",
        "step 6, run in step 8, rank 0 |",
        "table row 0, of step 7 |",
    ]


def test_launches_nest_in_their_steps(loaded, seed_bug):
    launches = [e for e in seed_bug.events if isinstance(e.what, Executed) and e.actor == "main"]
    rows = loaded.query(
        "select child.name as launch, parent.name as step from slice child join slice parent "
        "on child.parent_id = parent.id where parent.name glob 'step *'"
    )
    assert len(rows) == len(launches)
    during = next(e.what.step for e in launches if e.violations)
    assert {"launch": "postprocess of 6", "step": f"step {during}"} in rows


def test_arrows_join_what_belongs_together(loaded, seed_bug):
    found = {(r["source"], r["source_process"], r["target"], r["target_process"]) for r in loaded.query(FLOWS)}
    assert ("forward", "rank 0", "forward", "rank 1") in found
    assert ("sample", "rank 1", "broadcast", "rank 1") in found
    assert ("broadcast", "rank 1", "post_update of 6", "rank 0") in found
    assert ("forward", "rank 0", "postprocess of 6", "rank 0") in found
    steps = sum(isinstance(e.what, Scheduled) for e in seed_bug.events)
    assert sum(r["source"].startswith("schedule") for r in loaded.query(FLOWS)) == steps * seed_bug.pp


def test_counters_are_the_records(loaded, seed_bug):
    rows = loaded.query(
        "select counter_track.name as name, ts, value from counter join counter_track on track_id = counter_track.id"
    )
    assert {r["name"] for r in rows} == {"blocks in use", "steps in flight", "drafts accepted %"}
    used = [e.what.used for e in seed_bug.events if isinstance(e.what, Scheduled)]
    assert [r["value"] for r in sorted(rows, key=lambda r: r["ts"]) if r["name"] == "blocks in use"] == used


def test_a_violation_can_be_asked_for_by_its_fields(loaded):
    rows = loaded.query(
        "select slice.name as name, extract_arg(arg_set_id, 'args.meant request') as meant, "
        "extract_arg(arg_set_id, 'args.other request') as other, extract_arg(arg_set_id, 'args.table row') as row, "
        "extract_arg(arg_set_id, 'args.during') as during from slice where name glob 'VIOLATION*'"
    )
    assert rows == [{"name": "VIOLATION: cross-request copy", "meant": "r3", "other": "r4", "row": 0, "during": 8}]


def test_times_are_microseconds_of_virtual_time(loaded, seed_bug):
    end = max(e.end for e in seed_bug.events)
    assert loaded.query("select max(ts + dur) as end from slice where category != 'finding'")[0]["end"] == end * 1000
