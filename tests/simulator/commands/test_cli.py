"""The command line: what it prints for bad input, what it exits with, what it imports for a simple question."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stalerow.scenarios.program import COMMANDS, main
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import from_seed


def test_help_lists_every_command_and_imports_neither_torch_nor_triton_nor_numpy() -> None:
    program = (
        "import sys\nfrom stalerow.scenarios.program import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0\n"
        "print('IMPORTED', sorted({'torch', 'triton', 'numpy', 'hypothesis', 'rich'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert "IMPORTED []" in shown
    for name in COMMANDS:
        assert name in shown


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"stalerow {name}" in capsys.readouterr().out


def _too_small(data: dict) -> None:
    data["layout"]["num_blocks"] = 3


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["run", "1", "--kernels", "nonsense"], ["nonsense", "req-idx"]),
        (["run", "missing.json"], ["missing.json", "cannot be read"]),
        (["compare", "--kernels", "reference:req-idx", "nonsense"], ["nonsense"]),
        (["run", "1", "--kernels", "no_such_module:made"], ["no_such_module:made", "MODULE:FUNCTION"]),
        (["compare", "--kernels", "no_such_module:made"], ["no_such_module:made", "MODULE:FUNCTION"]),
        (["serve", "--kernels", "no_such_module:made"], ["no_such_module:made", "MODULE:FUNCTION"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)
    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    for name in names:
        assert name in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "1", "--quiet"],
        ["compare", "--pp", "2", "--runner", "v2", "--seeds", "0:2", "--jobs", "1"],
        ["serve", "--num-prompts", "2", "-pp", "1", "--jobs", "1"],
    ],
)
def test_a_kernel_set_may_be_made_by_a_function(arguments: list[str], doubles: str) -> None:
    assert main([*arguments, "--kernels", "stalerow_doubles:clock"]) == 0


@pytest.mark.parametrize(
    ("edit", "names"),
    [
        (_too_small, ["num_blocks", "3", "raise"]),
        (lambda d: d.update(format=7), ["format 7"]),
        (lambda d: d["layout"].update(layers=0), ["layers"]),
        (lambda d: d["pipeline"].update(runner="v3"), ["v3"]),
    ],
)
def test_a_bad_schedule_file_is_one_line_and_exit_code_2(
    edit, names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(to_json(from_seed(2)))
    edit(data)
    path = tmp_path / "s.json"
    path.write_text(json.dumps(data))
    assert main(["run", str(path), "--kernels", "reference:req-idx"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for name in names:
        assert name in error


@pytest.mark.parametrize("text", ["5:", "5:5", "7:3", "a:b"])
def test_a_wrong_seed_range_is_a_usage_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compare", "--seeds", text])
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_compare_writes_its_table_and_exits_1_when_state_crosses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", "--kernels", "reference:batch-row", "reference:req-idx", "--runner", "v2"]
    code = main([*arguments, "--pp", "1", "2", "--seeds", "0:12", "--jobs", "1", "--json", str(tmp_path / "c.json")])
    assert code == 1
    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    by = {(r["kernels"], r["pp"]): r for r in rows}
    assert by["reference:batch-row", 2]["violating"] > 0
    assert by["reference:batch-row", 2]["first"]["explanation"]
    assert by["reference:batch-row", 1]["violating"] == by["reference:req-idx", 2]["violating"] == 0
    assert {r["schedules"] for r in rows} == {12}
    shown = capsys.readouterr().out
    assert "run it again" in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_compare_of_clean_kernels_exits_0() -> None:
    arguments = ["compare", "--kernels", "reference:req-idx", "--pp", "2", "--runner", "v2", "--seeds", "0:5"]
    assert main([*arguments, "--jobs", "1"]) == 0


def test_run_prints_events_saves_the_schedule_and_says_how_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    assert main(["run", "2", "--kernels", "reference:req-idx", "--save", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "schedules step 1" in shown
    assert "clean: reference:req-idx" in shown
    assert path.read_bytes() == to_json(from_seed(2))
    assert main(["run", str(path), "--kernels", "reference:req-idx", "--quiet"]) == 0
    again = capsys.readouterr().out
    assert again.split("digest ")[1] == shown.split("digest ")[1]


def test_kernels_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "list"]) == 0
    assert "reference:batch-row" in capsys.readouterr().out
    assert main(["kernels", "show", "req-idx"]) == 0
    assert "slot" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["exits", "segfaults"])
def test_compare_after_a_crash_says_which_seed_and_nothing_of_isolation(
    name: str, doubles: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", "--kernels", f"stalerow_doubles:{name}", "--pp", "2", "--runner", "v2", "--seeds", "4:6"]
    assert main([*arguments, "--jobs", "1"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "killed its process" in shown
    assert f"run it again: stalerow run 4 --kernels stalerow_doubles:{name}" in shown
    assert "no state crossed requests" not in shown


def test_an_interrupted_comparison_keeps_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from stalerow.simulator.campaign import compare

    run_seeds, calls = compare.run_seeds, []

    def interrupted(setting, seeds):  # type: ignore[no-untyped-def]
        calls.append(setting)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_seeds(setting, seeds)

    monkeypatch.setattr(compare, "run_seeds", interrupted)
    arguments = ["compare", "--kernels", "reference:batch-row", "reference:req-idx", "--pp", "2", "--runner", "v2"]
    code = main([*arguments, "--seeds", "0:16", "--jobs", "1", "--json", str(tmp_path / "t.json")])
    assert code == 130
    assert "interrupted: the table is of 16 of 32 runs" in capsys.readouterr().out
    assert [row["schedules"] for row in json.loads((tmp_path / "t.json").read_text())["rows"]] == [8, 8]


@pytest.mark.parametrize("runs", [0, 1])
def test_an_interrupted_comparison_without_a_violation_has_no_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    from stalerow.simulator.campaign import compare

    run_seeds, calls = compare.run_seeds, []

    def interrupted(setting, seeds):  # type: ignore[no-untyped-def]
        calls.append(setting)
        if len(calls) > runs:
            raise KeyboardInterrupt
        return run_seeds(setting, seeds)

    monkeypatch.setattr(compare, "run_seeds", interrupted)
    code = main(["compare", "--kernels", "reference:req-idx", "--pp", "1", "--seeds", "0:16", "--jobs", "1"])
    told = capsys.readouterr().out
    assert code == 130
    assert "interrupted: the table is of" in told
    assert "no state crossed requests" not in told
    assert "nothing was run" not in told
