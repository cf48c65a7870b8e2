"""Recorded runs as schedules: every step as recorded, through ranks, kernels and oracle."""

from __future__ import annotations

import copy
from pathlib import Path

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.conform.to_schedule import TraceCheck, read_trace, to_schedule
from stalerow.simulator.conform.trace import Trace
from stalerow.simulator.errors import UsageError
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.engine_config import engine_config
from stalerow.simulator.schedule.file import from_builtins, to_json

TRACES = Path(__file__).parents[2] / "data" / "traces"
FILES = sorted(TRACES.glob("*.json.gz"))
REQ_IDX, BATCH_ROW = (kernel_set(f"reference:{name}") for name in ("req-idx", "batch-row"))


def name(path: Path) -> str:
    return path.name.removesuffix(".json.gz")


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_recorded_run_is_clean_and_its_steps_are_the_recorded_ones(path):
    trace = read_trace(path)
    check = TraceCheck(trace)
    outcome = run(to_schedule(trace, str(path)), REQ_IDX, observer=check)
    check.finish()
    assert check.difference is None
    assert check.steps == sum("step" in record for record in trace.trace)
    assert outcome.violations == ()


def test_batch_row_violates_where_ranks_lag_and_drafts_move_state():
    violating = set()
    for path in FILES:
        trace = read_trace(path)
        if run(to_schedule(trace, str(path)), BATCH_ROW).violations:
            violating.add((trace.meta.config.P > 1, trace.meta.config.K > 0))
    assert violating == {(True, True)}


def test_the_schedule_can_be_saved_and_read():
    schedule = to_schedule(read_trace(FILES[3]), "trace")
    assert from_builtins(msgspec.json.decode(to_json(schedule)), "saved") == schedule


def changed(trace: Trace, find, change) -> Trace:
    records = copy.deepcopy(trace.trace)
    change(next(record for record in records if find(record)))
    return Trace(trace.meta, trace.workload, records)


def test_a_changed_block_id_is_found_and_named():
    trace = read_trace(TRACES / "v032_04_P2_K2_preempt_resume.json.gz")

    def other_block(record):
        record["new"][0]["block_ids"][1][0] = 40

    check = TraceCheck(changed(trace, lambda r: r.get("new"), other_block))
    run(to_schedule(trace, "trace"), REQ_IDX, observer=check)
    check.finish()
    assert "admission of request 'a', block_ids, group 1, column 0: recorded 40, engine " in check.difference


def test_a_recording_that_goes_on_is_noticed():
    trace = read_trace(TRACES / "v032_09_P1_K4_B8_full_accept.json.gz")
    check = TraceCheck(trace)
    check._expected = [*check._expected, check._expected[-1]]
    run(to_schedule(trace, "trace"), REQ_IDX, observer=check)
    check.finish()
    assert "nothing left to do" in check.difference


def test_options_that_a_schedule_cannot_state_are_refused():
    trace = read_trace(FILES[0])
    requests = [msgspec.structs.replace(r, share=("req:a", 4)) for r in trace.workload.requests]
    odd = Trace(trace.meta, msgspec.structs.replace(trace.workload, requests=requests), trace.trace)
    with pytest.raises(UsageError, match=r"odd: recorded with a prompt that continues another.*use 'conform'"):
        to_schedule(odd, "odd")
    groups = [msgspec.structs.replace(trace.meta.groups[0], type="SlidingWindowSpec"), *trace.meta.groups]
    odd = Trace(msgspec.structs.replace(trace.meta, groups=groups), trace.workload, trace.trace)
    with pytest.raises(UsageError, match=r"odd: recorded with a sliding-window group, which .* use 'conform'"):
        to_schedule(odd, "odd")


def test_limits_reach_the_engine_of_the_schedule():
    """Each option that a schedule states is one that the engine's configuration has, with the recorded value."""
    trace = read_trace(FILES[0])
    config = msgspec.structs.replace(
        trace.meta.config,
        long_prefill_token_threshold=16,
        long_prefill_token_threshold_adaptive=True,
        max_num_active_seqs=1,
        policy="priority",
        watermark=0.25,
        shared_prefix_ckpt=True,
        disable_eagle_block_drop=True,
        lookahead_hashes=False,
    )
    meta = msgspec.structs.replace(trace.meta, config=config, scheduler_reserve_full_isl=False)
    made = engine_config(to_schedule(Trace(meta, trace.workload, trace.trace), "odd"))
    recorded = meta.engine_config()
    for name in ("long_prefill_token_threshold", "watermark", "shared_prefix_checkpoint", "reserve_full_isl"):
        assert getattr(made, name) == getattr(recorded, name)
        assert getattr(made, name) not in (0, 1) or name.endswith(("checkpoint", "isl"))
    assert (made.long_prefill_token_threshold_adaptive, made.max_num_active_seqs, made.policy) == (True, 1, "priority")
    assert (made.drop_draft_block, made.lookahead_hashes, made.reserve_full_isl) == (False, False, False)


def test_a_stop_token_ends_the_request_where_it_ended_in_the_recording():
    trace = read_trace(TRACES / "v034_01_P2_K4_aborts_preempt.json.gz")
    first = trace.workload.requests[0].id
    records = copy.deepcopy(trace.trace)
    delivery = next(r["delivered"] for r in records if first in r.get("delivered", ()))
    delivery[first] = (delivery[first][0], "stop")
    made = to_schedule(Trace(trace.meta, trace.workload, records), "stopped")
    assert {r.id: r.stop for r in made.requests if r.stop} == {first: delivery[first][0]}


def test_accepted_placeholders_are_refused():
    trace = read_trace(TRACES / "v033_02_P1_K2_prefix_hits.json.gz")

    def accept(record):
        next(row for row in record["scheduled"] if row["req"] == "p49")["will_sample"] = 2

    def padded(record):
        return any(r["req"] == "p49" and r["drafts"] for r in record.get("scheduled", ())) and record.get("new")

    with pytest.raises(UsageError, match="accepts placeholder drafts of p49"):
        to_schedule(changed(trace, padded, accept), "trace")


def test_a_file_that_is_no_trace_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(tmp_path / "none.json")
    (tmp_path / "no.json").write_bytes(b"{}")
    with pytest.raises(UsageError, match="expected a recorded scheduler run"):
        read_trace(tmp_path / "no.json")
