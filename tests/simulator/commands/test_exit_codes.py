"""Whatever is wrong with input or machine is one line and its code: no traceback, never the code of a finding."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stalerow.scenarios import program
from stalerow.simulator.campaign import failures
from stalerow.simulator.commands import cli
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

REFERENCE = ["--kernels", "reference:req-idx"]


def stalerow(*arguments: object, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stalerow.simulator.commands.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, **options)


def schedule(edit: Callable[[dict[str, Any]], object]) -> str:
    data = json.loads(to_json(from_seed(2)))
    edit(data)
    return json.dumps(data)


def saved(**subject: Any) -> str:
    failure = failures.Failure(kind="crash", subject=Subject(**subject), note="as saved", schedule=from_seed(2))
    return failures.to_json(failure).decode()


HOSTILE = {
    "pool of 1e7 blocks": schedule(lambda d: d["layout"].update(num_blocks=10**7, page_padding=1 << 20)),
    "pool of 1e40 blocks": schedule(lambda d: d["layout"].update(num_blocks=10**40)),
    "a million layers": schedule(lambda d: d["layout"].update(layers=10**6)),
    "a million ranks": schedule(lambda d: d["pipeline"].update(pp=10**6)),
    "a number of 5,000 digits": schedule(lambda d: d).replace('"format": 2', '"format": ' + "9" * 5000),
    "nested deeply": "[" * 100_000,
    "no recurrent group": schedule(lambda d: d["layout"].update(groups=[d["layout"]["groups"][-1]])),
    "negative staging depth": schedule(lambda d: d["limits"].update(staging_depth=-1)),
    "negative sequences": schedule(lambda d: d["limits"].update(max_num_seqs=-4)),
    "picks out of range": schedule(lambda d: d["order"].update(picks=[[-1, 2]])),
    "a key given twice": schedule(lambda d: d).replace('"format": 2', '"format": 2, "format": 2'),
    "a terminal escape": schedule(lambda d: d["requests"][0].update(id="\u001b[2J")),
    "not text": "\udcff\udcfe",
    "another kind of value": "[1, 2, 3]",
    "Infinity": schedule(lambda d: d["limits"].update(max_steps=1)).replace('"max_steps": 1', '"max_steps": Infinity'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schedule_is_refused_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(HOSTILE[name].encode("utf-8", "surrogateescape"))
    assert cli.main(["run", str(path), *REFERENCE]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"stalerow: error: {path}: ") or "GiB are free" in error
    assert error.count("\n") == 1
    assert len(error) < 600


@pytest.mark.parametrize("name", ["s.TOML", "bom.json"])
def test_harmless_habits_of_editors_are_read(name: str, tmp_path: Path) -> None:
    from stalerow.scenarios.loader import FOLDER

    text = (FOLDER / "stale-row.toml").read_text().split("[schedule]\n")[1].replace("[schedule.", "[")
    made = to_json(from_seed(2)) if name.endswith("json") else text.replace("[[schedule.", "[[").encode()
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + made if name.endswith("json") else made)
    assert cli.main(["run", str(tmp_path / name), *REFERENCE, "--quiet"]) == 0


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        ({"kernels": "evil.py"}, "run the kernels in evil.py"),
        ({"kernels": "evil:made"}, "run the kernels in evil:made"),
        ({"kernels": "some-package==1.0"}, "download some-package==1.0"),
        ({"kernels": "reference:req-idx", "faults": ("evil.py:fault",)}, "run the Python file evil.py"),
    ],
)
def test_a_file_neither_runs_python_nor_downloads_unless_trusted(
    subject: dict[str, Any], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n")
    (tmp_path / "f.json").write_text(saved(**subject))
    for command in (["replay", "f.json"], ["scenarios", "add", "f.json"]):
        assert program.main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        if command[0] == "replay":
            assert f"wants to {wanted}" in error
            assert "--trust" in error
    assert not (tmp_path / "ran").exists()
    if "evil.py:fault" in subject.get("faults", ()):
        assert cli.main(["replay", "f.json", "--trust"]) == 2
        assert (tmp_path / "ran").exists()


def test_a_scenarios_name_stays_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.json").write_text(saved(kernels="reference:req-idx"))
    for name in ("../../x", "/tmp/x", "a/b", "..", "\u001b[2J"):
        assert program.main(["scenarios", "add", str(tmp_path / "f.json"), "--name", name]) == 2
        assert "--name" in capsys.readouterr().err


def test_a_fault_of_the_tool_is_code_3_with_a_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(Subject, "load", broken)
    assert cli.main(["run", "2", *REFERENCE]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    path = Path(error.rsplit("traceback: ", 1)[1].rstrip(")\n"))
    assert "a bug of ours" in path.read_text()
    path.unlink()


FUZZ = ["fuzz", "--kernels", "reference:batch-row", "--seed", "7", "--runs", "1", "--jobs", "1"]


def test_a_file_where_the_failures_folder_should_be_is_code_2(tmp_path: Path) -> None:
    (tmp_path / ".stalerow").write_text("not a folder")
    done = stalerow(*FUZZ, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert ".stalerow" in done.stderr


@pytest.mark.parametrize("target", ["no/such\0folder/x.json", "/proc/none/x.json", "."])
def test_a_place_that_cannot_be_written_is_code_2(target: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "folder").mkdir()
    where = target if target != "." else str(tmp_path / "folder")
    assert cli.main(["run", "2", *REFERENCE, "--quiet", "--save", where]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def _no_room() -> None:
    """Every write to a file fails from the first byte on, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def test_a_finding_is_told_though_the_disk_is_full(tmp_path: Path) -> None:
    done = stalerow(*FUZZ, cwd=tmp_path, preexec_fn=_no_room, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "FOUND cross-request copy (seed 7, reference:batch-row)" in done.stdout
    assert "NOT SAVED" in done.stdout
    assert "stalerow replay 7 --kernels reference:batch-row" in done.stdout


def test_a_locale_without_the_drawings_characters_ends_no_run(tmp_path: Path) -> None:
    for encoding in ("ascii", "latin-1"):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = stalerow("run", "7", "--kernels", "reference:batch-row", cwd=tmp_path, env=environment)
        assert (done.returncode, done.stderr) == (1, "")


def test_a_reader_that_leaves_early_is_never_told_clean(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stalerow.simulator.commands.cli", "run", "2", *REFERENCE]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 130
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("segfaults", 1, "crash: the run was killed by SIGSEGV"),
        ("exits", 1, "crash: the kernels or a fault ended the process with exit code 7"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "replay"])
def test_kernels_that_kill_the_process_are_told_as_a_crash(
    verb: str, name: str, code: int, says: str, doubles: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": doubles}
    done = stalerow(verb, "7", "--kernels", f"stalerow_doubles:{name}", cwd=tmp_path, env=environment)
    assert done.returncode == code
    assert says in done.stderr
