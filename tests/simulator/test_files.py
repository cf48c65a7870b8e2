"""Files are read up to a bound and written beside; devices, pipes and links stay what they are."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stalerow.scenarios.program import main
from stalerow.simulator.files import read_bounded, write_beside

REFERENCE = ("--kernels", "reference:req-idx")


@pytest.mark.parametrize(
    "command",
    [
        ("run", "/dev/zero"),
        ("replay", "/dev/zero"),
        ("fuzz", "--seeds", "/dev/zero"),
        ("serve", "--dataset-name", "custom", "--dataset-path", "/dev/zero"),
        ("conform", "/dev/zero"),
        ("conform", "--live", "--python", sys.executable, "/dev/zero"),
        ("explore", "--file", "/dev/zero", "--resume"),
        ("scenarios", "run", "zero.toml"),
    ],
    ids=" ".join,
)
def test_a_file_without_end_is_refused(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zero.toml").symlink_to("/dev/zero")
    try:
        code: object = main(command)
    except SystemExit as ended:  # argparse's own
        code = ended.code
    said = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in said
    assert "67,108,864 bytes that are read" in said or "no such file" in said


def test_as_much_as_may_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stalerow.simulator.files.LARGEST", 5)
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"123456")
    assert read_bounded(tmp_path / "a") == b"12345"
    with pytest.raises(ValueError, match="more than the 5 bytes that are read"):
        read_bounded(tmp_path / "b")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_beside(pipe, b"an answer")
    reader.join()
    assert got == [b"an answer"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_goes_on_leading_to_its_file(tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "file.json", tmp_path / "link.json"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_beside(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file.json", "link.json", "there"]


@pytest.mark.parametrize("redirected", [False, True])
def test_an_answer_may_go_to_standard_output_by_name(tmp_path: Path, redirected: bool) -> None:
    program = [sys.executable, "-m", "stalerow.simulator.commands.cli", "run", "2", "--quiet", *REFERENCE]
    program += ["--json", "/proc/self/fd/1"]  # what /dev/stdout leads to, where nothing could be put in its place
    if redirected:
        with open(tmp_path / "out", "wb") as out:
            code = subprocess.run(program, stdout=out, cwd=tmp_path).returncode
        text = (tmp_path / "out").read_text()
    else:
        done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path)
        code, text = done.returncode, done.stdout
    assert code == 0
    assert "clean: reference:req-idx" in text
    assert '"schema": "stalerow.run/1"' in text
