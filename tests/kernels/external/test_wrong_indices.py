"""A bug that the smallest schedule shows, in an engine's file as a user gives it: found, shrunk, and that ends."""

from pathlib import Path

import pytest

from stalerow.scenarios.program import main
from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.candidates import signature
from stalerow.simulator.campaign.shrink import shrink

from .synthetic import with_indices

OPTIONS = ("--runs", "1", "--jobs", "1", "--pp", "1")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mamba_utils.py"


def test_the_kernel_is_clean_as_it_is(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(with_indices(0))
    assert main(["fuzz", "--kernels", str(file), *OPTIONS]) == 0
    assert f"clean: no violation with {file}" in capsys.readouterr().out


def test_one_column_too_far_is_found_at_the_first_seed_and_shrunk_to_the_smallest(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(with_indices(1))
    assert main(["fuzz", "--kernels", str(file), *OPTIONS]) == 1
    (saved,) = failures.saved()
    failure = failures.load(saved).failure
    assert failure.shrunk
    assert failure.violation is not None
    assert failure.violation.launch == "indices"
    (request,) = failure.schedule.requests
    assert (failure.schedule.pipeline.pp, request.max_tokens, failure.schedule.order.deviations) == (1, 1, 0)
    # The smallest fails as well, and there is nothing to leave out of it.
    again = shrink(failure.subject, failure.schedule, signature(failure.violation))
    assert again.schedule == failure.schedule
    capsys.readouterr()
    assert main(["replay", str(saved), "--trust"]) == 1
    assert "FAILS IN THE SAME WAY" in capsys.readouterr().out
