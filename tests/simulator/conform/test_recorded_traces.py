"""The engine against recorded runs of released schedulers, and the comparison against damaged recordings."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stalerow.simulator.conform.agreement import conform_trace, conform_traces, trace_agreement
from stalerow.simulator.conform.ours import OurRun
from stalerow.simulator.conform.trace import ScheduleRecord, Trace, load_trace
from stalerow.simulator.engine import profile, profile_names

TRACES = Path(__file__).parents[2] / "data" / "traces"
FILES = sorted(TRACES.glob("*.json.gz"))


def name(path: Path) -> str:
    return path.name.removesuffix(".json.gz")


@pytest.mark.parametrize("path", FILES, ids=name)
def test_the_engine_decides_what_the_released_scheduler_decided(path):
    result = conform_trace(path)
    assert result.difference is None
    assert result.steps > 10
    assert result.values > 2000


def test_all_releases_are_covered():
    report = conform_traces(FILES)
    assert report.agrees
    assert report.first_difference is None
    assert len(report.runs) == 31
    assert {profile(run.version.split("+")[0]).name for run in report.runs} == {*profile_names()}
    assert report.steps > 2400
    assert report.values > 300_000


def test_the_recordings_hold_the_situations_that_matter():
    """A comparison of quiet runs would prove little."""
    seen = set()
    for path in FILES:
        for record in load_trace(path).trace:
            seen |= {key for key in ("copies", "preempted_req_ids", "finished_req_ids", "zero") if record.get(key)}
            seen |= {key for key in record if key.startswith(("aborts", "ignored"))}
            for new in record.get("new", ()):
                seen |= {key for key in ("resumed", "junction") if new[key]}
                seen |= {"hit"} if new["computed"] else set()
    assert seen == {
        "copies",
        "preempted_req_ids",
        "finished_req_ids",
        "zero",
        "aborts_before_schedule",
        "aborts_before_update",
        "ignored_already_gone",
        "resumed",
        "junction",
        "hit",
    }


def test_the_other_releases_rules_do_not_fit():
    result = conform_trace(TRACES / "v033_02_P1_K2_prefix_hits.json.gz", "0.32")
    assert not result.agrees
    assert result.difference == "schedule of step 10: row of request 'p65', n: recorded 16, engine 17"


def damaged(trace: Trace, record: int, path: tuple[Any, ...], value: Any) -> Trace:
    records = copy.deepcopy(trace.trace)
    target: Any = records[record]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return Trace(trace.meta, trace.workload, records)


def first(trace: Trace, key: str) -> int:
    return next(index for index, record in enumerate(trace.trace) if record.get(key))


DAMAGES = [
    ("scheduled", (0, "n"), 99, "row of request 'a', n: recorded 99, engine "),
    ("scheduled", (0, "drafts"), 7, "row of request 'a', drafts: recorded 7, engine "),
    ("scheduled", (0, "computed"), 99, "row of request 'a', computed: recorded 99, engine "),
    ("scheduled", (0, "placeholders_before"), 9, "row of request 'a', placeholders_before: recorded 9, engine "),
    ("scheduled", (0, "known_tokens"), 9, "row of request 'a', known_tokens: recorded 9, engine "),
    ("scheduled", (0, "final_or_decode"), True, "row of request 'a', final_or_decode: recorded True, engine "),
    ("inflight_before", (0,), 77, "inflight_before, position 0: recorded 77, engine "),
    ("total", (), 99, "total: recorded 99, engine "),
    ("new", (0, "computed"), 8, "admission of request 'a', computed: recorded 8, engine 0"),
    ("new", (0, "block_ids", 1, 0), 40, "admission of request 'a', block_ids, group 1, column 0: recorded 40"),
    ("new", (0, "resumed"), True, "admission of request 'a', resumed: recorded True, engine False"),
    ("new", (0, "junction"), 16, "admission of request 'a', junction: recorded 16, engine 0"),
    ("cached", (0, "computed"), 99, "update of request 'a', computed: recorded 99, engine "),
    ("finished_req_ids", (0,), "z", "finished_req_ids, position 0: recorded 'z', engine "),
    ("preempted_req_ids", (0,), "z", "preempted_req_ids, position 0: recorded 'z', engine "),
    ("zero", (0,), 49, "zero, position 0: recorded 49, engine "),
    ("running", (0,), "z", "running, position 0: recorded 'z', engine 'a'"),
    ("waiting", (0,), "z", "waiting, position 0: recorded 'z', engine "),
    ("sched_blocks", ("a", 2, 0), 49, "block lists of request 'a', group 2, column 0: recorded 49, engine "),
    ("free_blocks", (), 99, "free_blocks: recorded 99, engine "),
    ("sampled", ("a",), 9, "tokens sampled for request 'a': recorded 9, engine "),
    ("delivered", ("a",), [1, "length"], "delivery to request 'a', position 1: recorded 'length', engine "),
    ("state", ("a", "before", 1), 9, "counters of request 'a', num_output_placeholders before the update: recorded 9"),
    ("state", ("a", "after", 0), 9, "counters of request 'a', num_computed_tokens after the update: recorded 9"),
    ("after_schedule_of", (), 99, "after_schedule_of: recorded 99, engine "),
]


@pytest.mark.parametrize(("key", "path", "value", "words"), DAMAGES, ids=lambda item: str(item)[:40])
def test_a_changed_value_is_found_and_named(key, path, value, words):
    trace = load_trace(TRACES / "v032_04_P2_K2_preempt_resume.json.gz")
    record = first(trace, key)
    result = trace_agreement("damaged", damaged(trace, record, (key, *path), value))
    assert not result.agrees
    assert words in result.difference
    assert result.records <= record + 1


@pytest.mark.parametrize("key", ["copies", "aborts_before_schedule", "aborts_before_update", "ignored_already_gone"])
def test_a_missing_list_is_found(key):
    for path in FILES:
        trace = load_trace(path)
        if any(key in record for record in trace.trace):
            break
    record = first(trace, key)
    result = trace_agreement("damaged", damaged(trace, record, (key,), []))
    assert key in result.difference
    assert "recorded nothing" in result.difference


def test_a_recording_that_ends_early_differs_from_a_run_that_goes_on():
    trace = load_trace(TRACES / "v032_09_P1_K4_B8_full_accept.json.gz")
    result = trace_agreement("short", Trace(trace.meta, trace.workload, trace.trace[:-1]))
    assert "not recorded, the engine goes on" in result.difference


def test_a_recording_that_goes_on_differs_from_a_run_that_has_ended():
    trace = load_trace(TRACES / "v032_09_P1_K4_B8_full_accept.json.gz")
    result = trace_agreement("long", Trace(trace.meta, trace.workload, [*trace.trace, trace.trace[-1]]))
    assert "nothing left to do" in result.difference


def test_a_file_that_is_no_recording_is_refused_in_one_line(tmp_path):
    for content, suffix in ((b"{}", ".json"), (b"no", ".json"), (b"no", ".json.gz")):
        path = tmp_path / f"file{suffix}"
        path.write_bytes(content)
        with pytest.raises(ValueError, match="expected a recorded scheduler run") as caught:
            load_trace(path)
        assert "\n" not in str(caught.value)


def test_a_recording_with_unknown_fields_is_refused(tmp_path):
    trace = load_trace(FILES[0])
    with pytest.raises(ValueError, match="expected records of a scheduler run"):
        trace_agreement("odd", damaged(trace, 0, ("surprise",), 1))


def rewritten(path: Path, change: Callable[[dict[str, Any]], None], folder: Path) -> Path:
    """The recording with a change made to its plain data."""
    data = msgspec.json.decode(gzip.decompress(path.read_bytes()))
    change(data)
    new = folder / "changed.json"
    new.write_bytes(msgspec.json.encode(data))
    return new


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda data: data["meta"]["config"].update(encoder_cache_size=2),
            r"recorded with encoder_cache_size \(meta\.config\), which is not modelled",
        ),
        (lambda data: data["meta"].update(encoder_budget=5), r"recorded with encoder_budget \(meta\), which is not"),
        (
            lambda data: data["workload"]["requests"][0].update(lora="a"),
            r"recorded with lora \(workload\.requests\[0\]\), which is not modelled",
        ),
        (lambda data: data["meta"].update(defer_block_free=True), "blocks kept back at a free"),
        (lambda data: data["meta"].update(versions={}), "versions name nothing, expected 'vllm' among them"),
        (
            lambda data: data["meta"]["groups"][0].update(type="CrossAttentionSpec"),
            r"recorded with CrossAttentionSpec \(meta\.groups\[0\]\.type\), which is not modelled",
        ),
        (
            lambda data: data["meta"]["groups"][0].update(attention_chunk_size=8),
            r"recorded with attention_chunk_size \(meta\.groups\[0\]\)",
        ),
        (lambda data: data["trace"][0].update(grammar=[1]), r"recorded with grammar \(at its top\), which is not"),
    ],
    ids=["option", "derived", "request", "fence", "versions", "group", "chunks", "step"],
)
def test_what_is_not_modelled_is_refused_by_name(change, words, tmp_path):
    path = rewritten(FILES[0], change, tmp_path)
    with pytest.raises(ValueError, match=words):
        conform_trace(path)


def test_resumed_requests_stand_where_they_were_admitted_from_0_34_on():
    result = conform_trace(TRACES / "v034_07_P2_K0_resume_order.json.gz", "0.33")
    assert result.difference == "schedule of step 95: admission of request 'r8', req: recorded 'r8', engine 'r7'"


def test_an_unknown_release_is_refused():
    trace = load_trace(FILES[0])
    trace.meta.versions["vllm"] = "0.99.0"
    with pytest.raises(ValueError, match=r"profile '0\.99\.0': expected one of"):
        trace_agreement("odd", trace)


def with_skips(data: dict[str, Any], wrong: int | None = None) -> None:
    """What a release from 0.33 on says of drafts, as our engine says it; the one of step `wrong` turned round."""
    trace = msgspec.convert(data, Trace)
    returns = {
        (r.step, row.req): row.will_sample
        for r in trace.records()
        if isinstance(r, ScheduleRecord)
        for row in r.scheduled
    }
    ours = OurRun(trace.meta.engine_config(), profile(trace.meta.version), trace.workload, returns)
    said = {r.step: r.skip_drafts for r in ours.records(trace.meta.config.steps) if isinstance(r, ScheduleRecord)}
    for item in data["trace"]:
        if "step" in item:
            item["skip_drafts"] = said[item["step"]] != (item["step"] == wrong)


def test_what_a_release_says_of_unused_drafts_is_compared(tmp_path):
    recording = next(path for path in FILES if path.name.startswith("v034") and "_K2_" in path.name)
    assert conform_trace(rewritten(recording, with_skips, tmp_path)).agrees
    differs = conform_trace(rewritten(recording, lambda data: with_skips(data, wrong=3), tmp_path))
    assert differs.difference.startswith("schedule of step 3: skip_drafts: recorded")
