"""`stalerow conform`: recorded runs and live comparison, what it prints and how it exits."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
import sys
from pathlib import Path

import pytest

from stalerow.simulator.conform import live
from stalerow.simulator.conform.workloads import random_task

TRACES = Path(__file__).parents[2] / "data" / "traces"
ONE = TRACES / "v032_09_P1_K4_B8_full_accept.json.gz"
PYTHON = "STALEROW_VLLM_PYTHON"
COMMAND = "conform"


def test_a_folder_of_recorded_runs_agrees(stalerow):
    code, out, _ = stalerow(TRACES)
    assert code == 0
    assert out.count("agrees") == 31
    assert "31 runs of 0.32.0, 0.33.0 and 0.34.0: 2,463 steps, 4,926 records, 303,099 values compared" in out
    assert "no difference in any field" in out


def test_the_first_difference_is_said_in_words(stalerow):
    code, out, _ = stalerow(TRACES / "v033_02_P1_K2_prefix_hits.json.gz", ONE, "--profile", "0.32")
    assert code == 1
    assert "first difference: schedule of step 10: row of request 'p65', n: recorded 16, engine 17" in out
    assert "1 differ" in out


def test_a_recorded_scheduler_that_keeps_a_block_is_told_beside_the_difference(stalerow, tmp_path):
    """A request keeps the state of its first column, long after it was retired."""
    data = json.loads(gzip.decompress((TRACES / "v032_04_P2_K2_preempt_resume.json.gz").read_bytes()))
    blocks = data["meta"]["config"]["num_blocks"]
    for record in data["trace"]:
        lists = record.get("sched_blocks", {})
        used = {block for groups in lists.values() for ids in groups for block in ids}
        long = [groups[0] for groups in lists.values() if len(groups[0]) > 6 and not any(groups[0][:3])]
        if long and record["free_blocks"]:
            long[0][0] = next(block for block in range(1, blocks) if block not in used)
            break
    else:
        raise AssertionError("no request keeps so many columns")
    (tmp_path / "t.json").write_text(json.dumps(data))
    code, out, _ = stalerow(tmp_path / "t.json")
    assert code == 1
    assert "differs, resources wrong" in out
    assert "  leak: " in out
    assert "1 differ; in 1 resources are wrong" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to compare with: give recorded runs (files or folders), or --live --python PATH"),
        (("none.json",), "none.json: no such file or folder"),
        (("--runs", "3"), "--runs belongs to --live or --worker"),
        (("--live",), "--live needs --python PATH"),
        (("--live", "--python", "/no/python"), "/no/python: expected a Python interpreter"),
        (("--live", "--python", "p", "--runs", "1", "--seeds", "0:2"), "--runs N means --seeds 0:N"),
        (("--live", "--python", "p", "none.json"), "none.json: not a saved workload"),
    ],
)
def test_misuse_is_one_line(stalerow, arguments, words):
    code, _, err = stalerow(*arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_an_empty_folder_and_a_file_that_is_no_trace_are_misuse(stalerow, tmp_path):
    assert stalerow(tmp_path)[0] == 2
    (tmp_path / "no.json").write_text("{}")
    code, _, err = stalerow(tmp_path)
    assert code == 2
    assert "expected a recorded scheduler run" in err


def test_an_environment_without_vllm_is_misuse(stalerow, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    code, _, err = stalerow("--live", "--python", sys.executable)
    assert code == 2
    assert "vllm" in err
    assert err.count("\n") == 1


STANDIN = """#!{python}
import json, sys
recorded = json.load(open({recorded!r}))
print(json.dumps({{"ready": "0.32.0"}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if {raises} and any(r["prompt_len"] > 2 for r in asked["workload"]["requests"]):
        frame = '  File "/env/vllm/v1/core/sched/scheduler.py", line 12, in schedule\\n    assert n == 1\\n'
        text = "Traceback (most recent call last):\\n" + frame + "AssertionError"
        print(json.dumps({{"error": text, "setup": {setup}}}), flush=True)
        continue
    if {differs} and any(r["prompt_len"] > 2 for r in asked["workload"]["requests"]):
        recorded["trace"][0]["total"] = 99
    print(json.dumps(recorded), flush=True)
    recorded = json.load(open({recorded!r}))
"""


@pytest.fixture
def standin(tmp_path):
    """An interpreter that, whatever it is asked, answers with a recorded run, damaged if a prompt is long."""

    def make(differs: bool = False, raises: bool = False, setup: bool = False) -> Path:
        recorded, script = tmp_path / "recorded.json", tmp_path / "python"
        recorded.write_bytes(gzip.decompress(ONE.read_bytes()))
        made = {"differs": differs, "raises": raises, "setup": setup}
        script.write_text(STANDIN.format(python=sys.executable, recorded=str(recorded), **made))
        script.chmod(0o755)
        return script

    return make


def test_live_workloads_that_agree(stalerow, standin):
    code, out, err = stalerow("--live", "--python", standin(False), "--seeds", "3:6")
    assert code == 0
    assert out.startswith("3 runs of 0.32.0: 60 steps")
    assert "workloads a second" in out
    assert "3 workloads against vLLM 0.32.0, rules of 0.32" in err


@pytest.fixture
def holding(monkeypatch):
    """Workloads of seeds 4 and 5, and what shrinking makes of them, hold what they should not, each in its own way."""
    judged = live.live_agreement
    ways = {random_task(4)[0]["accept_seed"]: "leak", random_task(5)[0]["accept_seed"]: "preemption loop"}

    def agreement(scheduler, name, task, rules):
        result, (options, workload) = judged(scheduler, name, task, rules), task
        way = ways.get(options["accept_seed"])
        said = f"{way}: {workload['requests'][0]['id']} again"
        return dataclasses.replace(result, held=said if way else None)

    monkeypatch.setattr(live, "live_agreement", agreement)


def test_live_runs_whose_resources_are_wrong_are_named_shrunk_and_saved(stalerow, standin, holding, tmp_path):
    saved = tmp_path / "saved.json"
    code, out, _ = stalerow("--live", "--python", standin(False), "--seeds", "3:6", "--save", saved)
    assert code == 1
    for seed, said in ((4, "leak"), (5, "preemption loop")):
        assert re.search(rf"^seed {seed}  0.32.0 .*  agrees, resources wrong\n  {said}: r0 again$", out, re.MULTILINE)
    assert "3 runs of 0.32.0" in out
    assert "no difference in any field; in 2 resources are wrong" in out
    for path, way in ((saved, "leak"), (tmp_path / "saved-2.json", "preemption loop")):
        data = json.loads(path.read_text())
        assert (data["difference"], data["raised"]) == (None, None)
        assert data["held"].startswith(f"{way}: ")
        (request,) = data["workload"]["requests"]
        assert (request["prompt_len"], request["max_tokens"]) == (1, 1)
        assert data["command"] in out


def test_an_interrupted_live_comparison_tells_what_it_has_found(stalerow, standin, monkeypatch):
    judged, calls = live.live_agreement, []

    def interrupted(scheduler, name, task, rules):
        calls.append(name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        result = judged(scheduler, name, task, rules)
        return dataclasses.replace(result, held="leak: r0 holds a block" if name == "seed 4" else None)

    monkeypatch.setattr(live, "live_agreement", interrupted)
    code, out, _ = stalerow("--live", "--python", standin(False), "--seeds", "3:9")
    assert code == 130
    assert "  leak: r0 holds a block" in out
    assert "interrupted: that is of 2 of 6 workloads" in out
    assert calls == ["seed 3", "seed 4", "seed 5"]


def test_a_live_difference_is_shrunk_saved_and_repeated(stalerow, standin, tmp_path):
    python, saved = standin(True), tmp_path / "saved.json"
    code, out, _ = stalerow("--live", "--python", python, "--runs", "4", "--save", saved)
    assert code == 1
    assert "seed 0" in out
    assert "schedule of step 1: total: recorded 99, engine" in out
    data = json.loads(saved.read_text())
    (request,) = data["workload"]["requests"]
    assert (request["prompt_len"], request["max_tokens"]) == (3, 1)
    assert data["command"] in out
    code, out, _ = stalerow(*data["command"].split()[2:])
    assert code == 1
    assert "total: recorded 99" in out


def test_an_engine_that_raises_is_a_finding_of_its_own_with_its_place(stalerow, standin, tmp_path):
    saved = tmp_path / "saved.json"
    code, out, _ = stalerow("--live", "--python", standin(raises=True), "--runs", "4", "--save", saved)
    assert code == 1
    assert "the engine itself raised AssertionError (assert n == 1) at vllm/v1/core/sched/scheduler.py:12" in out
    assert "workloads raise there" in out
    assert "no difference in any field; in 4 the engine itself raised" in out
    data = json.loads(saved.read_text())
    assert data["difference"] is None
    (request,) = data["workload"]["requests"]
    assert (request["prompt_len"], request["max_tokens"]) == (3, 1)


def test_an_engine_that_cannot_be_made_is_misuse(stalerow, standin, tmp_path):
    code, _, err = stalerow("--live", "--python", standin(raises=True, setup=True), "--runs", "4")
    assert code == 2
    assert "AssertionError" in err
    assert err.splitlines()[-1].startswith("stalerow: error: AssertionError")


@pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} names no Python that has vLLM")
def test_the_rules_of_another_release_differ_in_one_small_workload(stalerow, tmp_path):
    saved = tmp_path / "saved.json"
    python = os.environ[PYTHON]
    code, out, _ = stalerow("--live", "--python", python, "--runs", "50", "--profile", "0.33", "--save", saved)
    assert code == 1
    assert "saved as" in out
    assert len(json.loads(saved.read_text())["workload"]["requests"]) == 1
