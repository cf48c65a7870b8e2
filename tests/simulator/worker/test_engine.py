"""The engine's own worker under schedules. Needs its environment: see 'stalerow worker'."""

import json
import os

import pytest

from stalerow.simulator.draw.finding import finding
from stalerow.simulator.draw.picture import drawn
from stalerow.simulator.draw.record import Executed
from stalerow.simulator.draw.recorder import recorded
from stalerow.simulator.draw.trace import trace
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.file import from_builtins
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.worker.environment import environment

SEEDS = range(8)
STATES = ({"kind": "conv", "dim": 4, "elem_size": 2}, {"kind": "temporal", "dim": 8, "elem_size": 2})
GROUPS = (
    {"kind": "recurrent", "block_size": 8, "states": STATES},
    {"kind": "attention", "block_size": 8, "kv_bytes": 8},
)
REQUESTS = (
    {"id": "r0", "prompt_len": 6, "max_tokens": 20, "stream": 0, "accepted": [1]},
    {"id": "r1", "arrival": 5, "prompt_len": 1, "max_tokens": 8, "stream": 1, "accepted": [1]},
)
ONE_TOKEN = from_builtins(
    {
        "format": 2,
        "pipeline": {"pp": 1, "drafts": 2},
        "layout": {"groups": GROUPS, "layers": 1, "num_blocks": 40, "num_drafts": 2},
        "limits": {"max_model_len": 64},
        "requests": REQUESTS,
    },
    "here",
)
"""A request of one token joins one that decodes."""


def subject(release: str) -> Subject:
    python = os.environ.get("STALEROW_WORKER_PYTHON", "")
    try:
        environment(f"vllm=={release}", python)
    except UsageError as error:
        pytest.skip(str(error))
    return Subject(worker=f"vllm=={release}", python=python)


def schedule(seed: int):
    return from_draw(Draw(seed=seed, pp=2, runner="v2", faithful=True))


def test_the_release_with_the_fix_is_clean():
    engine = subject("0.32.0")
    outcomes = [engine.run(schedule(seed)) for seed in SEEDS]
    assert [v.explanation for outcome in outcomes for v in outcome.violations] == []
    assert any(outcome.marks.get("deferred postprocess over a re-gathered table") for outcome in outcomes)


def test_a_schedule_gives_the_same_digest_again():
    engine = subject("0.32.0")
    assert engine.run(schedule(1)).digest == engine.run(schedule(1)).digest


def test_the_release_before_the_fix_copies_through_another_row():
    engine = subject("0.30.0")
    found = [v for seed in range(30) for v in engine.run(schedule(seed)).violations]
    assert any(v.launch == "postprocess" and v.deferred for v in found)


@pytest.mark.parametrize("release", ["0.33.0", "0.34.0"])
def test_a_padded_prompt_of_one_token_runs_as_a_prefill(release):
    (first, *_) = subject(release).run(ONE_TOKEN).violations
    assert (first.kind, first.launch, first.request) == ("wrong position", "forward", "r1")
    assert "runs as a plain row" in first.explanation


def test_the_record_of_the_bug_names_requests_row_and_blocks_and_holds_every_write():
    record = recorded(schedule(10), subject("0.30.0").run, "vllm==0.30.0's own worker")
    found = finding(record)
    assert (record.lookup, found.meant, found.other, found.row, found.table) == ("row", "r0", "r1", 0, 8)
    assert "in step 8's table row 0 is r1's" in drawn(record, 80)
    told = json.loads(trace(record))["traceEvents"]
    arrows = {event["name"] for event in told if event["ph"] == "s"}
    assert {"activations", "sampled tokens", "deferred result"} <= arrows
    assert [event["name"] for event in told if event["ph"] == "i"] == ["VIOLATION: cross-request copy"]
    forwards = [e.what for e in record.events if isinstance(e.what, Executed) and e.what.launch == "forward"]
    assert forwards
    assert all(any(w.how == "state" for w in what.writes) for what in forwards)
    assert all(w.asked for what in forwards for w in what.writes)
    owners = {o.request for e in record.events if isinstance(e.what, Executed) for c in e.what.owners for o in c.owners}
    assert owners == {r.id for r in record.requests}


def test_recording_changes_no_digest():
    engine = subject("0.32.0")
    record = recorded(schedule(1), engine.run, "0.32.0")
    assert (record.digest, record.lookup) == (engine.run(schedule(1)).digest, "slot")
