"""The command: exit codes, the table, the JSON file, and one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stalerow.simulator.commands.cli import main

SMALL = [
    *("serve", "--num-prompts", "8", "--random-input-len", "40", "--random-output-len", "40", "--random-prefix-len"),
    *("36", "--ignore-eos", "--seed", "7", "--max-concurrency", "4", "--block-size", "16", "--num-gpu-blocks", "400"),
    *("--max-num-seqs", "8", "--jobs", "1"),
]


def test_broken_requests_exit_1_and_the_file_holds_every_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.json"
    assert main([*SMALL, "-pp", "1", "2", "--json", str(path)]) == 1
    data = json.loads(path.read_text())
    assert data["settings"]["num_prompts"] == 8
    keys = [(r["kernels"], r["pipeline_parallel_size"]) for r in data["runs"]]
    assert keys == [(f"reference:{k}", pp) for pp in (1, 2) for k in ("batch-row", "req-idx")]
    broken = [r for r in data["runs"] if r["stuck"]]
    assert [(r["kernels"], r["pipeline_parallel_size"]) for r in broken] == [("reference:batch-row", 2)]
    assert len(broken[0]["requests"]) == 8
    shown = capsys.readouterr().out
    assert "ref:batch-row" in shown
    assert "reported by users" in shown


def test_healthy_kernels_exit_0() -> None:
    assert main([*SMALL, "-pp", "2", "--kernels", "reference:req-idx"]) == 0


def test_recorded_requests_are_served(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    path.write_text('{"prompt_len": 20, "output_len": 5}\n{"arrival": 0.1, "prompt_len": 33, "output_len": 9}\n')
    assert main([*SMALL, "-pp", "2", "--dataset-path", str(path)]) == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--acceptance-length", "7"], "acceptance length 7"),
        (["--acceptance-rates", "0.5"], "acceptance rates"),
        (["--acceptance-rates", "1", "1", "1", "1", "--acceptance-length", "3"], "--acceptance-length"),
        (["--cost", "speed=3"], "speed=3"),
        (["--num-gpu-blocks", "9"], "num_blocks 9"),
        (["--num-gpu-blocks", "20"], "--num-gpu-blocks 20"),
        (["--num-speculative-tokens", "20"], "--num-speculative-tokens 20"),
        (["--profile", "9"], "--profile 9"),
        (["--dataset-name", "custom"], "--dataset-path"),
        (["--random-range-ratio", "2"], "--random-range-ratio 2"),
        (["--request-rate", "0"], "--request-rate 0"),
        (["--kernels", "no-such"], "no-such"),
    ],
)
def test_misuse_is_one_line_and_exit_2(options: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "-pp", "2", "--kernels", "reference:req-idx", *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("stalerow: error: ")
    assert named in error
