"""Options and environments that make no sense, or more than the machine has: one line, exit code 2, at once."""

import contextlib
from pathlib import Path

import pytest

from stalerow.simulator.commands.cli import main

NINES = "9" * 5000
ONE = ("serve", "--kernels", "reference:req-idx", "-pp", "1", "--jobs", "1")
REFUSED = [
    (*ONE, "--num-prompts", "0"),
    (*ONE, "--num-prompts", NINES),
    (*ONE, "--random-output-len", "0"),
    (*ONE, "--num-prompts", "16777216", "--random-input-len", "16777216"),
    (*ONE, "--request-rate", "nan"),
    (*ONE, "--request-rate", "-1"),
    (*ONE, "--random-range-ratio", "nan"),
    (*ONE, "--acceptance-length", "nan"),
    (*ONE, "--acceptance-rates", "nan", "nan", "nan", "nan"),
    (*ONE, "--num-gpu-blocks", "0"),
    (*ONE, "--num-gpu-blocks", "16777216"),
    (*ONE, "--num-gpu-blocks", "1" + "0" * 40),
    (*ONE, "--block-size", "0"),
    (*ONE, "--max-num-seqs", "0"),
    (*ONE, "--max-num-batched-tokens", "0"),
    (*ONE, "--num-speculative-tokens", "-1"),
    (*ONE, "--cost", "token=" + NINES),
    (*ONE, "--cost", "token=-1"),
    (*ONE, "--profile", "0.1"),
    ("serve", "-pp", "1000000"),
    ("serve", "--jobs", "100000"),
    ("fuzz", "--jobs", "100000"),
    ("fuzz", "--jobs", "0"),
    ("fuzz", "--pp", "1000000"),
    ("fuzz", "--runs", NINES),
    ("fuzz", "--runs", "-1"),
    ("fuzz", "--time", "0"),
    ("fuzz", "--seed", NINES),
    ("fuzz", "--profile", "0.1"),
    ("fuzz", "--ray", "auto", "--jobs", "2"),
    ("fuzz", "--ray", "auto", "--universes", "8"),
    ("explore", "--workloads", "--ray", "auto", "--jobs", "2"),
    ("compare", "--pp", "0"),
    ("compare", "--seeds", f"0:{NINES}"),
    ("run", NINES),
    ("run", "1", "--pp", "65"),
    ("run", "1", "--kernels", ""),
    ("replay", "1", "--until", "0"),
    ("explore", "--requests", NINES),
]


def told(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard error; argparse leaves by an exception."""
    code = 0
    with contextlib.suppress(SystemExit):
        code = main(arguments)
        return code, capsys.readouterr().err
    return 2, capsys.readouterr().err.splitlines()[-1] + "\n"


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda a: " ".join(a)[:60])
def test_what_cannot_be_is_refused_in_one_line(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, error = told(arguments, capsys)
    assert code == 2, error
    assert error.rstrip().count("\n") <= 1, error  # what a long run prints first may stand before it
    assert "error: " in error.splitlines()[-1]
    assert "Traceback" not in error
    assert len(error) < 700


NOT_PYTHON = {"/bin/ls": "ls", "says nothing": "#!/bin/sh\nexit 3\n", "says []": "#!/bin/sh\necho '[]'\nexit 0\n"}


@pytest.mark.parametrize("name", NOT_PYTHON)
@pytest.mark.parametrize("command", [("conform", "--live"), ("run", "1", "--engine", "vllm")], ids=" ".join)
def test_a_program_that_is_no_python_is_named(
    name: str, command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = Path("/bin/ls")
    if name != "/bin/ls":
        python = tmp_path / "python"
        python.write_text(NOT_PYTHON[name])
        python.chmod(0o755)
    assert main([*command, "--python", str(python)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(python) in error
    assert "JSON" not in error


def test_a_kernel_set_made_by_a_function_can_be_shown(doubles: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "stalerow_doubles:clock"]) == 0
    assert "ClockAlign in" in capsys.readouterr().out


@pytest.mark.parametrize("command", [("kernels", "show"), ("run", "1", "--kernels"), ("fuzz", "--kernels")])
def test_a_mistyped_kernel_set_is_answered_with_the_one_that_was_meant(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, "reference:req-idz"]) == 2
    error = capsys.readouterr().err
    assert "did you mean 'reference:req-idx'?" in error
    assert "MODULE:FUNCTION" in error


def test_more_jobs_than_tasks_start_no_process_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from stalerow.simulator.campaign import workers

    started = []
    start = workers.Worker.__init__

    def counted(self, *arguments):  # type: ignore[no-untyped-def]
        started.append(self)
        start(self, *arguments)

    monkeypatch.setattr(workers.Worker, "__init__", counted)
    monkeypatch.chdir(tmp_path)
    assert main(["fuzz", "--kernels", "reference:req-idx", "--runs", "2", "--jobs", "64"]) == 0
    assert len(started) <= 2


def test_sizes_are_compared_with_the_memory_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    from stalerow.simulator.errors import UsageError
    from stalerow.simulator.run import sizes

    monkeypatch.setattr(sizes, "free_bytes", lambda: 1 << 20)
    with pytest.raises(UsageError, match=r"GiB are free: lower --it"):
        sizes.check_bytes(1 << 40, "this takes", "--it")
    monkeypatch.setattr(sizes, "free_bytes", lambda: None)
    sizes.check_bytes(1 << 40, "this takes", "--it")


@pytest.mark.parametrize("command", [("conform", "--live"), ("run", "1", "--engine", "vllm")], ids=" ".join)
def test_a_release_whose_rules_are_not_known_is_named(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"ready": "0.99.0"}\'\ncat >/dev/null\n')
    python.chmod(0o755)
    assert main([*command, "--python", str(python)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "0.99.0" in error


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STALEROW_CACHE", str(tmp_path / "file"))
    assert main(["kernels", "show", "vllm==0.0.1"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert str(tmp_path / "file") in error


def test_a_toml_schedule_says_none_as_a_scenario_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from stalerow.scenarios.loader import FOLDER

    text = (FOLDER / "stale-row.toml").read_text().split("[schedule]\n")[1].replace("[schedule.", "[")
    text = text.replace("[[schedule.", "[[").replace("[limits]\n", '[limits]\nretention_interval = "none"\n')
    assert 'retention_interval = "none"' in text
    (tmp_path / "s.toml").write_text(text)
    saved = tmp_path / "s.json"
    arguments = ["run", str(tmp_path / "s.toml"), "--kernels", "reference:req-idx", "--quiet", "--save", str(saved)]
    assert main(arguments) == 0, capsys.readouterr().err
    assert '"retention_interval": null' in saved.read_text()
