"""`stalerow replay`: the same failure again, or exactly how it differs; and the walk through it."""

import io
import json
import re

import pytest
from rich.console import Console

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.candidates import signature
from stalerow.simulator.campaign.trials import Reduction, Trial
from stalerow.simulator.commands.cli import main
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

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
    ],
)
def test_what_is_not_a_violation_is_replayed_in_a_process_that_may_die(
    tmp_path, doubles, capsys, name, kind, code, says
):
    failure = failures.Failure(
        kind=kind, subject=Subject(kernels=f"stalerow_doubles:{name}"), note="as saved", schedule=from_seed(1)
    )
    assert main(["replay", str(failures.save(failure, tmp_path)), "--trust"]) == code
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


def test_until_violation_stops_where_it_was_found(saved, failure, capsys):
    assert main(["replay", str(saved), "--until", "violation"]) == 0
    out = capsys.readouterr().out
    assert ": the first violation" in out
    assert f"!! {failure.kind}" in out
    assert f"gathered table: batch of step {failure.violation.during - 1}" in out


def test_until_violation_of_a_clean_run_says_so(saved, capsys):
    assert main(["replay", str(saved), "--until", "violation", "--kernels", "reference:req-idx"]) == 0
    assert "before the first violation: this is its last state" in capsys.readouterr().out


def test_step_prints_every_event_where_nobody_can_be_asked(saved, capsys):
    assert main(["replay", str(saved), "--step"]) == 0
    out = capsys.readouterr().out
    assert "[1] engine" in out
    assert "schedules step 1" in out
    assert re.search(r"slot \d r\d: state_idx", out)
    assert "end of run" in out


def talk(failure, answers):
    """What a walk shows to somebody who gives these answers, and its prompts without the keys."""
    from stalerow.simulator.draw.walk import walk

    left, asked = iter(answers), []

    def ask(prompt):
        asked.append(prompt.split()[0])
        return next(left)

    out = Console(record=True, width=110, file=io.StringIO())
    walk(failure.subject.run, failure.schedule, out, ask=ask, events=True)
    return out.export_text(), asked


def test_step_goes_on_and_back_and_shows_the_state(failure):
    text, asked = talk(failure, ["", "s", "b", "2", "G", "", "g", "b", "q"])
    last = asked[0].partition("/")[2].removesuffix("]")
    places = [a.partition("/")[0].removeprefix("[") for a in asked]
    assert places == ["1", "2", "2", "1", "2", last, last, "1", "1"]
    assert text.count("rank 0   device has to do") == 1
    assert text.count("there is no event that way") == 2


def test_step_jumps_to_the_violation_and_to_a_step(failure):
    text, asked = talk(failure, ["v", "V", "step 2", "q"])
    assert f"!! {failure.kind}: {failure.violation.explanation}" in text
    assert "there is no event that way" in text
    assert len(set(asked)) == 3


def test_step_names_its_keys(failure):
    text, _ = talk(failure, ["?", "xyz", "q"])
    assert text.count("violation before") == 2
    assert "'xyz' is none of the keys" in text


def test_files_are_refused_beside_a_walk(saved, capsys):
    assert main(["replay", str(saved), "--step", "--html", "x.html"]) == 2
    assert "--html x.html" in capsys.readouterr().err


def test_bad_files_are_one_line_and_code_2(tmp_path, capsys):
    assert main(["replay", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_shrinking_kept_the_signature(failure):
    outcome = BATCH_ROW.run(failure.schedule)
    assert signature(outcome.violations[0]) == signature(failure.violation)
    assert outcome.digest == failure.digest


def test_the_end_of_input_ends_a_walk(failure):
    from stalerow.simulator.draw.walk import walk

    def ask(prompt):
        raise EOFError

    walk(failure.subject.run, failure.schedule, Console(file=io.StringIO()), ask=ask, events=True)
