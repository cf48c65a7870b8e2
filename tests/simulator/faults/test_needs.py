"""What a fault `needs` is honoured everywhere: what lacks it is skipped and counted, or refused by itself."""

import json
import re
from pathlib import Path

import pytest

from stalerow.scenarios.program import main
from stalerow.simulator.campaign import failures
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

HEAD = """
from stalerow.simulator.faults import Fault, Wrapped
from stalerow.simulator.rank.policy import RankPolicy
"""


def fault_file(tmp_path: Path, text: str) -> str:
    """A file of its own for every text, since a process reads a fault's file once."""
    path = tmp_path / f"mine{len(list(tmp_path.glob('mine*.py')))}.py"
    path.write_text(HEAD + text)
    return str(path)


@pytest.mark.parametrize("command", ["fuzz", "compare"])
def test_schedules_without_what_a_fault_needs_are_skipped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A fault that needs runner V2, and would fail under V1 too, shows nothing there since nothing is run."""
    monkeypatch.chdir(tmp_path)
    text = (
        "class P(RankPolicy):\n    def blocks_to_zero(self, step):\n        raise ZeroDivisionError('ran')\n"
        "class A(Fault):\n    '''Needs runner V2.'''\n    name = 'a'\n    rank = P\n"
        "    def needs(self, schedule): return schedule.pipeline.runner == 'v2'"
    )
    options = ["--kernels", "reference:req-idx", "--fault", fault_file(tmp_path, text), "--jobs", "1"]
    if command == "fuzz":
        assert main(["fuzz", *options, "--runs", "12", "--runner", "v1"]) == 2
        out = capsys.readouterr().out
        assert "0 schedules in" in out
        assert "skipped: 12 schedules without what the fault needs" in out
        assert "nothing was run: no schedule has what the fault needs" in out
    else:
        assert main(["compare", *options, "--seeds", "0:12", "--pp", "2", "--runner", "v1", "--json", "t.json"]) == 2
        out = capsys.readouterr().out
        (row,) = json.loads((tmp_path / "t.json").read_text())["rows"]
        assert (row["schedules"], row["skipped"]) == (0, 12)
    assert "no schedule of 12 has what it needs: runner V2" in " ".join(out.split())


ALWAYS = """
class W(Wrapped):
    def aligned_indices(self, binding, seq_lens, num_rows_padded, block_size, out):
        out[:] = 0
class A(Fault):
    '''Needs {what}.'''
    name = 'a'
    def wrap_align(self, kernels, schedule): return W(kernels.align)
    def needs(self, schedule): return {needs}
"""
"""A fault that shows in every schedule, also where it says that it cannot."""

LACKED = "the schedule lacks what fault 'a' needs: runner V2: choose another schedule, or leave the fault out"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "1"),
        ("run", "1", "--save", "kept.json"),
        ("replay", "1"),
        ("replay", "1", "--until", "violation"),
        ("replay", "1", "--step"),
        ("explore", "made.json"),
        ("run", "made.json"),
    ],
    ids=" ".join,
)
def test_one_schedule_without_what_a_fault_needs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.json").write_bytes(to_json(from_seed(1, runner="v1")))
    needs = ALWAYS.format(what="runner V2", needs="schedule.pipeline.runner == 'v2'")
    runner = () if "made.json" in arguments else ("--runner", "v1")
    options = ["--kernels", "reference:req-idx", "--fault", fault_file(tmp_path, needs), *runner]
    assert main([*arguments, *options]) == 2
    said = capsys.readouterr()
    assert said.err.strip() == f"stalerow: error: {arguments[1]}: {LACKED}"
    assert "FOUND" not in said.out
    assert not (tmp_path / "kept.json").exists()


def test_an_exploration_skips_and_counts_what_lacks_a_fault_s_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault shows in every workload; with needs that half of them have, half are searched."""
    monkeypatch.chdir(tmp_path)
    bound = ["explore", "--requests", "1", "--steps", "3", "--prompt", "2", "--output", "2", "--jobs", "1"]
    bound += ["--kernels", "reference:req-idx", "--keep-going"]

    def explored(needs: str, *options: str) -> tuple[int, str, dict]:
        path = fault_file(tmp_path, ALWAYS.format(what="what there is", needs=needs))
        code = main([*bound, "--fault", path, "--json", "a.json", *options])
        return code, capsys.readouterr().out, json.loads((tmp_path / "a.json").read_text())

    code, out, every = explored("True", "--workloads")
    assert (code, every["skipped"], every["failed"]) == (1, 0, every["schedules"])
    code, out, half = explored("schedule.requests[0].prompt_len == 2", "--workloads")
    assert code == 1
    assert 0 < half["skipped"] < every["schedules"]
    assert half["skipped"] + half["schedules"] == every["schedules"]
    assert half["failed"] == half["schedules"]
    assert f"skipped: {half['skipped']} schedules without what the fault needs" in out
    for options in ([], ["--workloads"]):
        code, out, none = explored("False", *options)
        assert code == 2
        assert (none["schedules"], none["clean"], none["failures"]) == (0, None, [])
        assert none["skipped"] == (every["schedules"] if options else none["skipped"]) > 0
        assert "nothing was run: no schedule has what the fault needs" in out
        assert f"note: fault a: no schedule of {none['skipped']} has what it needs: what there is" in out
        assert "clean" not in out


def test_an_exploration_whose_fault_was_never_asked_is_not_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "class P(RankPolicy):\n    def excluded(self, entry, generation): return super().excluded(entry, generation)\n"
        "class A(Fault):\n    name = 'a'\n    rank = P"
    )
    path = fault_file(tmp_path, text)
    bound = ["--requests", "1", "--pp", "1", "--steps", "3", "--prompt", "2", "--output", "2", "--jobs", "1"]
    assert main(["explore", *bound, "--kernels", "reference:req-idx", "--fault", path]) == 2
    out = capsys.readouterr().out
    assert re.search(r"note: fault a: never called in \d+ runs?: rank.excluded", out)
    assert "nothing was tested" in out


def test_what_is_shrunk_keeps_what_its_fault_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = ALWAYS.format(what="two requests", needs="len(schedule.requests) >= 2")
    path = fault_file(tmp_path, text)
    assert main(["fuzz", "--runs", "1", "--jobs", "1", "--kernels", "reference:req-idx", "--fault", path]) == 1
    (saved,) = failures.saved()
    assert len(failures.load(saved).failure.schedule.requests) == 2


def test_a_folder_s_failures_without_what_their_faults_need_are_not_run_and_not_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault's needs changed after the failures were saved."""
    monkeypatch.chdir(tmp_path)
    path = fault_file(tmp_path, ALWAYS.format(what="a prompt", needs="not __import__('os').path.exists('changed')"))
    common = ["--jobs", "1", "--kernels", "reference:req-idx", "--runs", "1", "--fault", path]
    assert main(["fuzz", *common]) == 1
    (saved,) = failures.saved()
    (tmp_path / "changed").touch()
    capsys.readouterr()
    assert main(["replay", ".stalerow/failures", "--trust"]) == 2
    said = capsys.readouterr()
    assert f"NOT RUN  {saved}" in said.out
    assert "no schedule in it has what its faults need: nothing was run" in said.err
    assert main(["failures", "prune", "--fixed", "--jobs", "1", "--trust"]) == 0
    assert saved.exists()
    assert main(["replay", str(saved), "--trust"]) == 2
    assert "the schedule lacks what fault 'a' needs: a prompt" in capsys.readouterr().err
    assert main(["scenarios", "add", str(saved), "--trust", "--folder", str(tmp_path)]) == 2
    assert "lacks what fault 'a' needs" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "seed"), [("overlap-shift", 2), ("page-stride-copy", 10), ("zero-accept", 5)])
def test_what_shows_a_fault_has_what_it_needs(name: str, seed: int) -> None:
    """Schedules that a narrower `needs` would skip: one draft, a conv state behind another, no drafts."""
    subject = Subject(kernels="reference:req-idx", faults=(name,))
    schedule = from_seed(seed)
    assert subject.run(schedule).violations
    assert subject.lacking(schedule) == ()
