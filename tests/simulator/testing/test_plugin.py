"""The pytest plugin, in a project of its own that only has stalerow installed."""

import html
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from stalerow.simulator.campaign import failures
from stalerow.simulator.schedule.draw import Draw

PROJECT = """
from hypothesis import given
from stalerow.simulator.testing import assert_isolated, schedules


def test_seeds(stalerow_schedule, stalerow_kernels):
    assert_isolated(stalerow_schedule, stalerow_kernels)


@given(schedules())
def test_property(stalerow_kernels, schedule):
    assert_isolated(schedule, stalerow_kernels)


def test_unrelated(stalerow_device):
    assert stalerow_device == "cpu"
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "test_engine.py").write_text(PROJECT)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*options):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "PYTEST_"))}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--stalerow-device", "cpu"]
        command += ["--stalerow-settings", "ci", "--junit-xml", "junit.xml", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return run


def properties(path, test):
    for case in ElementTree.parse(path).iter("testcase"):
        if case.get("name") == test:
            return {p.get("name"): p.get("value") for p in case.iter("property")}
    raise AssertionError(f"{test} is not in {path}")


@pytest.mark.parametrize("spread", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_failing_seed_is_drawn_saved_and_named(project, tmp_path, spread):
    options = ("--stalerow-kernels", "reference:batch-row", "--stalerow-seeds", "6:8", "-k", "seeds")
    code, out = project(*options, *spread)
    assert code == 1
    (path,) = failures.saved(tmp_path / ".stalerow" / "failures")
    command = f"stalerow replay {path.relative_to(tmp_path)}"
    assert "deferred postprocess of step" in out
    assert f"replay: {command}" in out
    assert out.count(command) >= 2  # in the test's report and in the summary
    assert "2 schedules with reference:batch-row; violating: cross-request copy 1" in out
    found = properties(tmp_path / "junit.xml", "test_seeds[seed7]")
    assert found["stalerow.seed"] == "7"
    assert found["stalerow.command"] == command
    assert found["stalerow.file"] == str(path.relative_to(tmp_path))
    assert found["stalerow.page"] == str(path.relative_to(tmp_path).with_suffix(".html"))
    assert failures.load(path).failure.violation.explanation.split(";")[0] in (
        html.unescape((tmp_path / found["stalerow.page"]).read_text())
    )
    failure = failures.load(path).failure
    assert failure.shrunk
    assert len(failure.schedule.requests) == 2
    replayed = subprocess.run(
        [sys.executable, "-m", "stalerow.simulator.commands.cli", *command.split()[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "FAILS IN THE SAME WAY" in replayed.stdout


def test_a_failing_property_is_saved_as_hypothesis_shrank_it(project, tmp_path):
    code, out = project("--stalerow-kernels", "reference:batch-row", "-k", "property")
    assert code == 1
    (path,) = failures.saved(tmp_path / ".stalerow" / "failures")
    failure = failures.load(path).failure
    assert len(failure.schedule.requests) == 2
    assert failure.schedule.pipeline.pp == 2
    assert failure.schedule.order.deviations <= 1
    assert "reproduce_failure" in out
    assert properties(tmp_path / "junit.xml", "test_property")["stalerow.seed"] == "drawn by Hypothesis"


def test_clean_kernels_pass_and_the_summary_says_which_marks_were_seen(project, tmp_path):
    options = ("--stalerow-kernels", "reference:req-idx", "--stalerow-seeds", "0:4", "-k", "not property")
    code, out = project(*options, "-p", "xdist", "-n", "2")
    assert code == 0
    assert "4 schedules with reference:req-idx; violating: none" in out
    assert "marks seen (schedules): " in out
    assert "running column moved" in out
    found = properties(tmp_path / "junit.xml", "test_seeds[seed0]")
    assert found["stalerow.schedules"] == "1"
    assert "running column moved" in found["stalerow.marks"]
    assert not (tmp_path / ".stalerow").exists()


def test_missing_marks_fail_the_session_when_required(project):
    code, out = project("--stalerow-kernels", "reference:req-idx", "--stalerow-seeds", "0:1", "-k", "seeds")
    assert code == 0
    code, out = project(
        "--stalerow-kernels", "reference:req-idx", "--stalerow-seeds", "0:1", "-k", "seeds", "--stalerow-require-marks"
    )
    assert code == 1
    assert "marks not seen:" in out


def test_a_session_without_schedules_is_left_alone(project):
    code, out = project("-k", "unrelated")
    assert code == 0
    assert " stalerow " not in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--stalerow-seeds", "5"), "--stalerow-seeds: '5' is not a range of seeds: give A:B"),
        (("--stalerow-seeds", "7:3"), "--stalerow-seeds: '7:3' is not a range of seeds"),
        (("--stalerow-pp", "0"), "--stalerow-pp: '0' is not a pipeline size: give 1 to 64 ranks"),
        (("--stalerow-kernels", "req-idz"), "unknown kernel set 'req-idz': did you mean 'req-idx'?"),
        (("--stalerow-kernels", "none.py"), "--stalerow-kernels: none.py: neither a release"),
        (("--stalerow-fault", "stale-rov"), "--stalerow-fault: unknown fault 'stale-rov'"),
        (("--stalerow-runner", "v3"), "invalid choice: 'v3'"),
    ],
)
def test_a_bad_option_is_one_usage_error_and_no_failing_test(project, options, says):
    code, out = project(*options)
    assert code == 4
    assert says in out
    assert "Traceback" not in out
    assert "FAILED" not in out


def test_pipeline_size_runner_and_faithfulness_can_be_asked_for(project, tmp_path):
    asked = ("--stalerow-pp", "2", "--stalerow-runner", "v2", "--stalerow-only-faithful")
    code, out = project("--stalerow-kernels", "reference:batch-row", "--stalerow-seeds", "7:8", "-k", "seeds", *asked)
    assert code == 1
    (path,) = failures.saved(tmp_path / ".stalerow" / "failures")
    origin = failures.load(path).failure.origin
    assert origin.draw == Draw(7, pp=2, runner="v2", faithful=True)
    assert f"{origin.command}   (the seed)" in out


NEEDS_V2 = """
from stalerow.simulator.faults import Fault
from stalerow.simulator.rank.policy import RankPolicy


class Breaks(RankPolicy):
    def blocks_to_zero(self, step):
        raise ZeroDivisionError("ran")


class Needy(Fault):
    \"\"\"Needs runner V2.\"\"\"

    name = "needy"
    rank = Breaks

    def needs(self, schedule):
        return schedule.pipeline.runner == "v2"
"""


@pytest.mark.parametrize("spread", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_seeds_without_what_a_fault_needs_are_skipped_and_a_session_of_nothing_else_fails(project, tmp_path, spread):
    """The fault would raise in any run, so none was made."""
    (tmp_path / "mine.py").write_text(NEEDS_V2)
    asked = ("--stalerow-kernels", "reference:req-idx", "--stalerow-fault", "mine.py", "--stalerow-seeds", "0:3")
    code, out = project(*asked, "--stalerow-runner", "v1", "-k", "seeds", "-rs", *spread)
    assert code == 4
    assert "3 skipped" in out
    assert "the schedule lacks what fault 'needy' needs: runner V2" in out
    assert "skipped: 3 without what their faults need" in out
    assert "note: fault needy: no schedule of 3 has what it needs: runner V2" in out
    assert "nothing was tested: run other schedules, or correct the fault" in out


def test_seeds_that_have_what_a_fault_needs_are_run_beside_those_that_have_not(project, tmp_path):
    harmless = NEEDS_V2.replace('raise ZeroDivisionError("ran")', "return super().blocks_to_zero(step)")
    (tmp_path / "mine.py").write_text(harmless)
    asked = ("--stalerow-kernels", "reference:req-idx", "--stalerow-fault", "mine.py", "--stalerow-seeds", "0:12")
    code, out = project(*asked, "-k", "seeds")
    assert code == 0
    skipped = int(re.search(r"skipped: (\d+) without", out)[1])
    assert 0 < skipped < 12
    assert f"{12 - skipped} passed, {skipped} skipped" in out
    assert "nothing was tested" not in out


NEEDS_V1 = """
from stalerow.simulator.faults import Fault, Wrapped


class Zeros(Wrapped):
    def aligned_indices(self, binding, seq_lens, num_rows_padded, block_size, out):
        out[:] = 0


class Needy(Fault):
    name = "needy"

    def wrap_align(self, kernels, schedule):
        return Zeros(kernels.align)

    def needs(self, schedule):
        return schedule.pipeline.runner == "v1"
"""


def test_a_property_draws_only_schedules_that_have_what_a_fault_needs(project, tmp_path):
    """The fault shows in every schedule, so shrinking would leave what is needed if it might."""
    (tmp_path / "mine.py").write_text(NEEDS_V1)
    code, out = project("--stalerow-kernels", "reference:req-idx", "--stalerow-fault", "mine.py", "-k", "property")
    assert code == 1
    (path,) = failures.saved(tmp_path / ".stalerow" / "failures")
    assert failures.load(path).failure.schedule.pipeline.runner == "v1"
    assert int(re.search(r"skipped: (\d+) without", out)[1]) > 0
