"""Kernels compiled for the host and the same in Triton's interpreter: equal bytes from random launches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stalerow.kernels.external import DownloadError
from stalerow.kernels.external.wheel import fetch

pytestmark = pytest.mark.usefixtures("host")

RELEASES = (
    *("0.25.0", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0"),
    *("0.30.0", "0.31.0", "0.32.0", "0.33.0", "0.34.0"),
)


def digests(device: str, examples: int, *names: str) -> dict[str, list[str]]:
    program = [sys.executable, str(Path(__file__).parent / "launches.py"), device, str(examples), *names]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made: dict[str, list[str]] = json.loads(done.stdout)
    return made


def assert_equal(compiled: dict[str, list[str]], interpreted: dict[str, list[str]], at_least: int) -> None:
    assert compiled.keys() == interpreted.keys()
    for what, found in compiled.items():
        differ = [i for i, (a, b) in enumerate(zip(found, interpreted[what], strict=True)) if a != b]
        assert not differ, f"{what}: launches {differ}"
        assert len(set(found)) >= at_least, f"{what}: launches that are no different prove nothing"


def test_the_projects_kernels_agree_in_both_forms():
    names = ("req-idx", "batch-row")
    assert_equal(digests("cpu", 12, *names), digests("interpreter", 12, *names), 8)


@pytest.mark.network
@pytest.mark.parametrize("version", RELEASES)
def test_a_releases_kernels_agree_in_both_forms(version):
    if not os.environ.get("STALEROW_NETWORK_TESTS"):
        pytest.skip("STALEROW_NETWORK_TESTS is not set, so no release is downloaded")
    try:
        fetch("vllm", version)
    except DownloadError as error:
        pytest.skip(str(error))
    name = f"vllm=={version}"
    assert_equal(digests("cpu", 60, name), digests("interpreter", 60, name), 40)
