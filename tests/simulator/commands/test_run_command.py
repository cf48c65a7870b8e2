"""`stalerow run` with recorded steps and with an installed scheduler."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TRACES = Path(__file__).parents[2] / "data" / "traces"
PREEMPT = TRACES / "v032_04_P2_K2_preempt_resume.json.gz"
PYTHON = "STALEROW_VLLM_PYTHON"
COMMAND = "run"


def test_a_recorded_run_drives_kernels_and_oracle(stalerow, tmp_path):
    saved = tmp_path / "schedule.json"
    code, out, _ = stalerow("--from-trace", PREEMPT, "--kernels", "reference:req-idx", "--quiet", "--save", saved)
    assert code == 0
    assert "clean: reference:req-idx, 75 steps" in out
    assert "stopped early" not in out
    assert f"every step as recorded in {PREEMPT}: 75 steps, 6839 values, block ids included" in out
    digest = out.split("digest ")[1].split()[0]
    assert digest in stalerow(saved, "--kernels", "reference:req-idx", "--quiet")[1]


def test_a_recorded_run_shows_what_batch_row_kernels_do(stalerow):
    code, out, _ = stalerow("--from-trace", PREEMPT, "--kernels", "reference:batch-row")
    assert code == 1
    assert "cross-request copy" in out
    assert "engine    schedules step 1:" in out
    assert "every step as recorded" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to run: give a seed, a schedule file, or --from-trace TRACE"),
        (("3", "--from-trace", PREEMPT), "requests itself: leave 3 out"),
        (("--from-trace", PREEMPT, "--pp", "2", "--no-only-faithful"), "--pp, --only-faithful: for seeds only"),
        (("--from-trace", "none"), "none: cannot be read"),
        (("3", "--engine", "vllm"), "--engine vllm needs --python PATH"),
        (("3", "--engine", "vllm", "--python", "/no/python"), "/no/python: expected a Python interpreter"),
    ],
)
def test_misuse_is_one_line(stalerow, arguments, words):
    code, _, err = stalerow(*arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} names no Python that has vLLM")
def test_the_installed_scheduler_makes_the_recorded_steps(stalerow):
    engine = ("--engine", "vllm", "--python", os.environ[PYTHON])
    code, out, _ = stalerow("--from-trace", PREEMPT, "--kernels", "reference:req-idx", "--quiet", *engine)
    assert code == 0
    assert "steps by the scheduler of vLLM 0.3" in out
    assert "every step as recorded" in out
