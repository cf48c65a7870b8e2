"""Whose run the page of a failure shows: the NumPy twin's if that fails too, else that of the kernels themselves."""

import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.campaign.failing import failing_record
from stalerow.simulator.commands.cli import main
from stalerow.simulator.subject.subject import Subject

SEED_BUG = catalogue()["stale-row"].schedule
NOWHERE = "cuda"
"""A device that the machines of these tests lack: kernels that run on it fail."""


def test_the_twin_shows_what_it_fails_in_as_well():
    subject = Subject(kernels="batch-row", device=NOWHERE)
    record = failing_record(subject, SEED_BUG, "cross-request copy", "again")
    assert record is not None
    assert record.violations[0].kind == "cross-request copy"
    assert (record.kernels, record.again) == ("batch-row", "again")


@pytest.fixture
def other_twin(monkeypatch):
    """Kernels whose twin is right where they are wrong."""
    monkeypatch.setattr(Subject, "twin", lambda self, interleaved=False: Subject(kernels="reference:req-idx"))


def test_what_a_twin_does_not_show_is_shown_by_the_kernels(other_twin):
    subject = Subject(kernels="reference:batch-row")
    record = failing_record(subject, SEED_BUG, "cross-request copy", "again")
    assert record is not None
    assert record.violations[0].kind == "cross-request copy"
    assert any(event.violations for event in record.events)


def test_kernels_that_went_out_of_bounds_are_not_run_once_more(other_twin):
    subject = Subject(kernels="batch-row", device=NOWHERE)
    assert failing_record(subject, SEED_BUG, "out of bounds", "again") is None


def test_a_page_that_is_linked_is_never_one_of_a_clean_run(other_twin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["fuzz", "--kernels", "reference:req-idx", "--fault", "null-state", "--runs", "1", "--jobs", "1"]
    assert main([*command, "--html", "fuzz.html"]) == 1
    (shown,) = (tmp_path / ".stalerow" / "failures").glob("*.html")
    assert 'class="verdict bad"' in shown.read_text()
