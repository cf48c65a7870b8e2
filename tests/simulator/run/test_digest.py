"""Same schedule, same kernel set: same digest, in any process and in either form of the kernels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.file import load, to_json
from stalerow.simulator.schedule.generate import from_seed

PROGRAM = """
from stalerow.kernels.sets import kernel_set
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.run.outcome import run
kernels = kernel_set("reference:batch-row")
for seed in range(25):
    print(run(from_seed(seed), kernels).digest)
"""


def test_two_processes_with_different_hash_seeds_agree() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for hash_seed in ("0", "4242")
    ]
    assert printed[0] == printed[1]
    assert len(set(printed[0])) == 25


@pytest.mark.parametrize("seed", range(20))
def test_a_round_trip_through_the_file_leaves_the_digest(seed: int, tmp_path: Path) -> None:
    kernels = kernel_set("reference:batch-row")
    schedule = from_seed(seed)
    (tmp_path / "s.json").write_bytes(to_json(schedule))
    assert run(load(tmp_path / "s.json"), kernels).digest == run(schedule, kernels).digest


@pytest.mark.parametrize("variant", ["batch-row", "req-idx"])
@pytest.mark.parametrize(("seed", "pp", "runner"), [(0, 2, "v2"), (1, 4, "v2"), (3, 1, "v2"), (4, 2, "v1")])
def test_triton_and_reference_agree(variant: str, seed: int, pp: int, runner: str) -> None:
    schedule = from_seed(seed, pp, runner)
    triton = run(schedule, kernel_set(variant, "cpu"))
    reference = run(schedule, kernel_set(f"reference:{variant}"))
    assert triton.digest == reference.digest
    assert triton.violations == reference.violations


def test_another_schedule_has_another_digest() -> None:
    kernels = kernel_set("reference:req-idx")
    assert len({run(from_seed(s), kernels).digest for s in range(30)}) == 30
