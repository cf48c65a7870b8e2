"""What GitHub Actions is told."""

from stalerow.simulator.campaign.findings import Tally
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.commands.ci import Annotations, Entry
from stalerow.simulator.subject.subject import Subject

ENTRY = Entry("cross-request copy (batch-row, seed 7)", "copied 50% of\na|b", "stalerow replay 7")


def test_one_annotation_per_entry_with_the_service_s_escapes(capsys):
    Annotations(active=True).report("head", [ENTRY], {})
    assert capsys.readouterr().out == (
        "::error title=cross-request copy (batch-row%2C seed 7)::copied 50%25 of%0Aa|b | stalerow replay 7\n"
    )


def test_the_step_summary_is_appended(tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    Annotations(summary=summary).report("head", [ENTRY], {"prefix hit": 3}, ["open window"])
    text = summary.read_text()
    assert text.startswith("before\n### head\n")
    assert "| copied 50% of a\\|b | `stalerow replay 7` |" in text
    assert "Marks: prefix hit 3." in text
    assert "Marks not seen: open window." in text


def test_nothing_is_said_outside_of_a_service(monkeypatch, capsys):
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    Annotations.from_environment().report("head", [ENTRY], {})
    assert capsys.readouterr().out == ""


def test_the_environment_decides(monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "s.md"))
    assert Annotations.from_environment() == Annotations(True, tmp_path / "s.md")


def test_a_summary_that_cannot_be_written_costs_a_line_and_not_the_result(tmp_path, capsys):
    Annotations(summary=tmp_path / "none" / "s.md").report("head", [ENTRY], {})
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "step summary" in error


def test_a_campaign_in_which_nothing_ran_is_not_called_free_of_violations(tmp_path):
    summary = tmp_path / "s.md"
    options = Options(subject=Subject(kernels="reference:req-idx"), runs=1, shard=(2, 2))
    Annotations(summary=summary).campaign(options, Tally())
    text = summary.read_text()
    assert "Nothing was run" in text
    assert "No violation" not in text
