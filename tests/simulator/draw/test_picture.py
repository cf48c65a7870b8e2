"""What the terminal shows of a failure, byte for byte, and that no width makes it run over."""

from pathlib import Path

import msgspec
import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.charset import ascii_only
from stalerow.simulator.draw.picture import NARROWEST, WIDEST, drawn, width_here
from stalerow.simulator.draw.recorder import recorded
from stalerow.simulator.subject.subject import Subject

from .conftest import busy, record_of
from .snapshots import check

WIDTHS = (40, 80, 100)
NAMES = tuple(name for name, s in catalogue().items() if s.schedule is not None)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_seed_bug_looks_like_this(seed_bug, width):
    check(f"stale-row-{width}.txt", drawn(seed_bug, width))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_lines_name_requests_step_rank_row_and_block(seed_bug, width):
    first = " ".join(" ".join(drawn(seed_bug, width).splitlines()[:20]).split())
    for name in (
        "cross-request copy",
        "postprocess of step 6 during step 8 on rank 0",
        "working for r3, touched r4's memory",
        "table row 0 was r3's in step 6; in step 7's table row 0 is r4's",
        "block 8 (r3 g0 c4) ==> block 11 (r4 g0 c3)",
        "block 8 (r3 g0 c4) --> block 6 (r3 g0 c3)",
    ):
        assert name in first


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_fits_every_width(name):
    scenario = catalogue()[name]
    subject = Subject(kernels="reference:req-idx", faults=tuple(scenario.faults))
    record = recorded(scenario.schedule, subject.run, str(subject))
    assert record.violations
    for width in WIDTHS:
        lines = drawn(record, width).splitlines()
        assert max(map(len, lines)) <= width
        assert record.violations[0].kind in lines[0]
        if width == WIDEST:
            assert len(lines) <= 45


def test_slot_kernels_are_not_shown_a_table_that_they_do_not_read(seed_bug):
    by_slot = msgspec.structs.replace(seed_bug, lookup="slot")
    assert "table of step" not in drawn(by_slot, 80)
    assert "table 7" not in drawn(by_slot, 80)


def test_masked_rows_are_in_brackets():
    record = record_of("reference:batch-row", busy(2, 6, 40))
    assert record.violations
    masked = {seat.request for e in record.events for seat in getattr(e.what, "rows", ()) if getattr(seat, "masked", 0)}
    _, _, timeline = drawn(record, 100).partition("engine  ")
    assert any(f"({request})" in timeline for request in masked)


def test_padding_and_aborts_are_shown():
    scenario = catalogue()["no-generation-check"]
    subject = Subject(kernels="reference:batch-row", faults=tuple(scenario.faults))
    assert "aborted" in drawn(recorded(scenario.schedule, subject.run, "x"), 100)
    scenario = catalogue()["dirty-rows"]
    subject = Subject(kernels="reference:req-idx", faults=tuple(scenario.faults))
    assert "padded" in drawn(recorded(scenario.schedule, subject.run, "x"), 100)


@pytest.mark.parametrize(("columns", "width"), [("20", NARROWEST), ("64", 64), ("300", WIDEST)])
def test_the_width_is_the_terminals_within_bounds(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert width_here() == width


def test_a_clean_run_says_so(fixed):
    assert drawn(fixed) == "no violation: reference:req-idx ran 10 steps clean"


LOCALES = [({"LC_ALL": "C"}, True), ({"LANG": "POSIX"}, True), ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False), ({}, False)]


@pytest.mark.parametrize(("locale", "plain"), LOCALES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_plain_locale_gets_plain_characters(seed_bug, locale, plain, width, monkeypatch):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert drawn(seed_bug, width).isascii() is plain


def test_an_output_that_knows_no_lines_gets_none(seed_bug, monkeypatch, tmp_path: Path):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    with open(tmp_path / "out.txt", "w", encoding="latin-1") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert ascii_only()
        output.write(drawn(seed_bug, 60))


@pytest.mark.parametrize("name", NAMES)
def test_no_word_of_the_explanation_is_cut_at_80_columns(name):
    scenario = catalogue()[name]
    subject = Subject(kernels=scenario.kernels, faults=tuple(scenario.faults))
    record = recorded(scenario.schedule, subject.run, str(subject))
    assert " ".join(record.violations[0].explanation.split()) in " ".join(drawn(record, 80).split())
