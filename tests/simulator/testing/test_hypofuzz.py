"""Properties run under HypoFuzz as they are, and pytest begins with what it found, in a database that both share."""

import os
import subprocess
import sys

import pytest
from hypothesis.internal.conjecture.data import ConjectureResult

pytest.importorskip("hypofuzz", reason="needs hypofuzz")
pytestmark = pytest.mark.skipif(
    "slice_comments" not in ConjectureResult.__annotations__, reason="hypofuzz needs hypothesis<6.156"
)

PROPERTY = """
import pytest
from hypothesis import Phase, given, settings
from stalerow.simulator.testing import IsolationError, assert_isolated, schedules

def note(word):
    with open("tried", "a") as file:
        print(word, end=" ", file=file)

@pytest.mark.parametrize("kernels", ["reference:batch-row"])
@settings(phases=(Phase.reuse, Phase.generate))
@given(schedule=schedules(pp=2, runner="v2"))
def test_no_copy_reads_another_request(kernels, schedule):
    try:
        assert_isolated(schedule, kernels)
    except IsolationError:
        note("fails")
        raise
    note("clean")
"""
OPTIONS = ["--stalerow-settings", "fuzz", "test_rows.py"]
COMMAND = "from hypothesis.extra.cli import main; main()"


def tries(folder, env):
    """What came of each example of a pytest session, in turn."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OPTIONS]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=200)
    assert "1 failed" in done.stdout, done.stdout
    return (folder / "tried").read_text().split()


def test_what_hypofuzz_found_is_what_pytest_runs_first(tmp_path):
    shared = tmp_path / "shared"
    env = {**os.environ, "STALEROW_DATABASE": str(shared), "COLUMNS": "200"}
    env.pop("GITHUB_TOKEN", None)
    for name in ("fuzzed", "tested", "alone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_rows.py").write_text(PROPERTY)
    fuzz = [sys.executable, "-c", COMMAND, "fuzz", "-n", "1", "--no-dashboard", "--", *OPTIONS]
    # It ends once every property has failed.
    fuzzed = subprocess.run(fuzz, cwd=tmp_path / "fuzzed", env=env, capture_output=True, text=True, timeout=300)
    assert "Found a failing input for every test" in fuzzed.stdout + fuzzed.stderr
    # The first that pytest tries is the simplest there is, and clean, but for what is kept.
    assert tries(tmp_path / "tested", env)[0] == "fails"
    assert tries(tmp_path / "alone", env | {"STALEROW_DATABASE": ""})[0] == "clean"
