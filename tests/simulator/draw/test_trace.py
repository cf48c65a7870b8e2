"""The trace against the public Trace Event Format: phases, required fields, nesting, flows, counters."""

import json
from collections import defaultdict

import msgspec
import pytest

from stalerow.simulator.commands.cli import main
from stalerow.simulator.draw.trace import trace
from stalerow.simulator.schedule.generate import from_seed

from .conftest import record_of

REQUIRED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"name", "pid", "tid", "args"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
    "i": {"name", "cat", "pid", "tid", "ts", "s", "args"},
}


SERVE = (
    "serve --kernels reference:req-idx --num-prompts 4 -pp 2 --random-input-len 64 --random-output-len 16 "
    "--random-prefix-len 16 --block-size 16 --num-gpu-blocks 400 --jobs 1 --trace"
)


@pytest.fixture(scope="module", params=["seed_bug", "fixed", "four ranks", "runner v1", "serving"])
def events(request, tmp_path_factory):
    if request.param == "serving":
        path = tmp_path_factory.mktemp("serving") / "trace.json"
        assert main([*SERVE.split(), str(path)]) == 0
        return json.loads(path.read_text())["traceEvents"]
    if request.param == "four ranks":
        record = record_of("reference:batch-row", from_seed(3, 4, "v2"))
    elif request.param == "runner v1":
        record = record_of("reference:req-idx", from_seed(5, 2, "v1"))
    else:
        record = request.getfixturevalue(request.param)
    return json.loads(trace(record))["traceEvents"]


def test_every_event_has_what_its_phase_needs(events):
    for event in events:
        assert event.keys() == {"ph", *REQUIRED[event["ph"]]}
        for field in ("ts", "dur", "pid", "tid", "id"):
            assert isinstance(event.get(field, 0), int)
            assert event.get(field, 0) >= 0


def test_slices_of_a_thread_nest_or_are_apart(events):
    threads = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            threads[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for slices in threads.values():
        open_: list[int] = []
        for start, end in sorted(slices, key=lambda s: (s[0], -s[1])):
            while open_ and open_[-1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1]
            open_.append(end)


def test_waiting_is_no_slice(events):
    assert "wait" not in {e["name"] for e in events}


def test_flows_begin_and_end_inside_a_slice_and_do_not_go_back_in_time(events):
    slices = [e for e in events if e["ph"] == "X"]
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert begins
    for key, begin in begins.items():
        assert begin["ts"] <= ends[key]["ts"]
        for end in (begin, ends[key]):
            assert any(
                (s["pid"], s["tid"]) == (end["pid"], end["tid"]) and s["ts"] <= end["ts"] <= s["ts"] + s["dur"]
                for s in slices
            )


def test_every_thread_and_process_is_named(events):
    named = {(e["name"], e["pid"], e["tid"]) for e in events if e["ph"] == "M"}
    for event in events:
        if event["ph"] == "X":
            assert ("process_name", event["pid"], 0) in named
            assert ("thread_name", event["pid"], event["tid"]) in named


def test_all_violations_are_instants_with_all_their_fields(seed_bug):
    instants = [e for e in json.loads(trace(seed_bug))["traceEvents"] if e["ph"] == "i"]
    assert len(instants) == len(seed_bug.violations)
    args = instants[0]["args"]
    violation = seed_bug.violations[0]
    assert msgspec.to_builtins(violation).items() <= args.items()
    assert args["meant request"] == "r3"
    assert args["other request"] == "r4"
    assert args["table row"] == 0
    assert args["block that was meant"] == 6


def test_violations_found_when_the_run_was_over_are_there_too():
    record = record_of("reference:batch-row", from_seed(6, 2, "v2"))
    with_event = {i for e in record.events for i in e.violations}
    instants = [e for e in json.loads(trace(record))["traceEvents"] if e["ph"] == "i"]
    assert len(instants) == len(record.violations) >= len(with_event)
