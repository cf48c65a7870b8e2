"""`stalerow replay`: the same failure again, or exactly how it differs; and the walk through it."""

import json

import pytest

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.shrink import signature
from stalerow.simulator.campaign.trials import Reduction, Trial
from stalerow.simulator.commands.cli import main
from stalerow.simulator.run.subject import Subject
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_seed

BATCH_ROW = Subject(kernels="reference:batch-row")


@pytest.fixture(scope="module")
def failure():
    seen = Trial(Draw(7), BATCH_ROW).do()
    return findings.shrunk(seen, BATCH_ROW, Reduction(seen, BATCH_ROW, BATCH_ROW).do())


@pytest.fixture
def saved(tmp_path, monkeypatch, failure):
    monkeypatch.chdir(tmp_path)
    return failures.save(failure)


def changed(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return str(path)


def test_a_saved_failure_fails_in_the_same_way(saved, capsys):
    assert main(["replay", str(saved)]) == 1
    out = capsys.readouterr().out
    assert "FAILS IN THE SAME WAY: kind, launch, blocks and digest are equal" in out
    assert "on rank 0, kernels reference:batch-row" in out


def test_with_other_kernels_it_no_longer_fails(saved, capsys):
    assert main(["replay", str(saved), "--kernels", "reference:req-idx"]) == 0
    out = capsys.readouterr().out
    assert "NO LONGER FAILS" in out
    assert "saved with reference:batch-row, run with reference:req-idx" in out


def test_what_differs_is_named_with_both_values(saved, capsys):
    def change(data):
        data["digest"] = "0" * 32
        data["violation"]["target_block"] = 99

    assert main(["replay", changed(saved, change)]) == 1
    out = capsys.readouterr().out
    assert "FAILS DIFFERENTLY: kind, launch equal" in out
    assert f"digest: was {'0' * 32}, is " in out
    assert "-> 99, is" in out


def test_a_file_of_another_release_replays_and_says_what_no_longer_fits(saved, capsys):
    path = changed(saved, lambda d: d["schedule"]["pipeline"].update(expert_parallel=2))
    assert main(["replay", path]) == 1
    out = capsys.readouterr().out
    assert "no longer fits: schedule.pipeline.expert_parallel is not known" in out
    assert "FAILS IN THE SAME WAY" in out


def test_a_seed_is_compared_with_what_was_saved_of_it(saved, capsys):
    assert main(["replay", "7", "--kernels", "reference:batch-row"]) == 1
    assert "FAILS IN THE SAME WAY as when this seed was saved" in capsys.readouterr().out
    changed(saved, lambda d: d["origin"].update(digest="1" * 32))
    assert main(["replay", "7", "--kernels", "reference:batch-row"]) == 1
    assert "FAILS DIFFERENTLY: was cross-request copy in postprocess, digest 1111" in capsys.readouterr().out


def test_a_clean_seed_is_clean(saved, capsys):
    assert main(["replay", "0", "--kernels", "reference:req-idx"]) == 0
    assert "clean: reference:req-idx" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "kind", "code", "says"),
    [
        ("exits", "crash", 1, "FAILS AGAIN: the worker process exited with code 7"),
        ("clock", "determinism breach", 3, "FAILS IN THE SAME WAY: two runs gave digests"),
        ("raises", "internal error", 3, "ZeroDivisionError"),
    ],
)
def test_what_is_not_a_violation_is_replayed_in_a_process_that_may_die(
    tmp_path, doubles, capsys, name, kind, code, says
):
    failure = failures.Failure(
        kind=kind, subject=Subject(kernels=f"stalerow_doubles:{name}"), note="as saved", schedule=from_seed(1)
    )
    assert main(["replay", str(failures.save(failure, tmp_path))]) == code
    out = capsys.readouterr().out
    assert f"saved as: {kind} (as saved)" in out
    assert says in out


def test_until_shows_tables_slots_rows_and_blocks(saved, failure, capsys):
    assert main(["replay", str(saved), "--until", str(failure.violation.during)]) == 0
    out = capsys.readouterr().out
    assert f"every rank has run step {failure.violation.during}" in out
    for part in ("engine   ", "rank 0   device has to do", "gathered table: batch of step", "blocks by owner"):
        assert part in out
    assert f"!! {failure.kind}" in out


def test_until_past_the_end_shows_the_last_state(saved, capsys):
    assert main(["replay", str(saved), "--until", "99"]) == 0
    assert "before step 99: this is its last state" in capsys.readouterr().out


def test_step_prints_every_event_where_nobody_can_be_asked(saved, capsys):
    assert main(["replay", str(saved), "--step"]) == 0
    out = capsys.readouterr().out
    assert "[1] engine" in out
    assert "schedules step 1" in out
    assert "slot 3 r0: state_idx" in out
    assert "end of run" in out


def test_step_asks_on_a_terminal(saved, failure):
    from rich.console import Console

    from stalerow.simulator.draw.walk import walk

    answers = iter(["", "s", "", "q"])
    asked = []

    def ask(prompt):
        asked.append(prompt)
        return next(answers)

    out = Console(record=True, width=110)
    walk(failure.subject, failure.schedule, out, ask=ask, events=True)
    assert asked == ["[1] ", "[2] ", "[2] ", "[3] "]
    assert out.export_text().count("rank 0   device has to do") == 1


def test_bad_files_are_one_line_and_code_2(tmp_path, capsys):
    assert main(["replay", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_shrinking_kept_the_signature(failure):
    outcome = BATCH_ROW.run(failure.schedule)
    assert signature(outcome.violations[0]) == signature(failure.violation)
    assert outcome.digest == failure.digest
