"""A kernel that cannot be compiled for the host runs interpreted, with one line that says so and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stalerow.scenarios import catalogue
from stalerow.simulator.schedule.file import to_json

pytest.importorskip("llvmlite")


def stalerow(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    schedule = catalogue()["overlap-shift"].schedule
    assert schedule is not None
    (tmp_path / "small.json").write_bytes(to_json(schedule))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    program = [sys.executable, "-m", "stalerow.scenarios.program"]
    return subprocess.run(
        [*program, *arguments, "--kernels", "histogram_kernels:counting"],
        env=environment | {"PYTHONPATH": str(Path(__file__).parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )


def test_a_command_goes_on_in_the_interpreter(tmp_path: Path) -> None:
    done = stalerow(tmp_path, "run", "small.json", "--quiet")
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("stalerow: count uses tt.histogram (")
    assert "histogram_kernels.py:" in line
    assert line.endswith("cannot be compiled for the host: kernels are interpreted, which is 15 times slower")
    assert "clean" in done.stdout


def test_who_asks_for_compiled_kernels_gets_an_error(tmp_path: Path) -> None:
    done = stalerow(tmp_path, "run", "small.json", "--quiet", "--device", "cpu")
    assert done.returncode == 2
    assert "use --device interpreter" in done.stderr


def test_a_campaign_ends_with_the_same_error_and_not_as_an_internal_one(tmp_path: Path) -> None:
    done = stalerow(tmp_path, "fuzz", "--runs", "1", "--jobs", "1", "--device", "cpu")
    assert done.returncode == 2, done.stdout
    assert "count uses tt.histogram" in done.stderr
