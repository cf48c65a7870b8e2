"""Fetching a release: pip is asked once, only source files stay, and each failure has its own message."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stalerow.kernels.base import cached as cache_module
from stalerow.kernels.external import DownloadError, SourceNotFound, describe
from stalerow.kernels.external import wheel as wheel_module
from stalerow.kernels.external.pins import PINS

from .synthetic import KERNEL_FILE, TABLES_FILE, write_engine

Pip = Callable[[list[str]], subprocess.CompletedProcess[str]]


class FakePip:
    """Stands for ``python -m pip``: writes a wheel of the synthetic engine, or fails with `output`."""

    def __init__(self, engine: Path, output: str = "") -> None:
        self.engine = engine
        self.output = output
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if self.output:
            return subprocess.CompletedProcess(command, 1, "", self.output)
        wheel = Path(command[command.index("--dest") + 1]) / "vllm-9.9.9-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for file in sorted(self.engine.rglob("*.py")):
                archive.write(file, file.relative_to(self.engine).as_posix())
            archive.writestr("vllm/_C.abi3.so", b"machine code")
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    fake = FakePip(write_engine(tmp_path / "engine"))
    monkeypatch.setattr(subprocess, "run", fake)
    return fake


def test_a_release_is_downloaded_once_and_only_its_sources_stay(pip: FakePip, cache: Path) -> None:
    first, second = describe("vllm==9.9.9"), describe("vllm==9.9.9")
    assert first == second
    assert first.origin == "release"
    assert len(pip.commands) == 1
    kept = sorted(path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file())
    folder = "releases/vllm/9.9.9"
    assert kept == sorted(f"{folder}/{path}" for path in (*wheel_module.ENGINE_FILES, PINS))


@pytest.mark.parametrize("damage", ["truncated", "emptied", "removed", "empty folder"])
def test_a_damaged_release_is_fetched_again(pip: FakePip, cache: Path, damage: str) -> None:
    first, folder = describe("vllm==9.9.9"), cache / "releases/vllm/9.9.9"
    file = folder / KERNEL_FILE
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-20])
    elif damage == "emptied":
        file.write_bytes(b"")
    else:
        file.unlink()
    if damage == "empty folder":
        shutil.rmtree(folder)
        folder.mkdir()
    assert describe("vllm==9.9.9") == first
    assert len(pip.commands) == 2


def test_a_release_is_pinned_to_what_was_fetched_first(pip: FakePip, cache: Path) -> None:
    describe("vllm==9.9.9")
    file = cache / "releases/vllm/9.9.9" / KERNEL_FILE
    file.write_text("# something else\n")
    changed = pip.engine / "vllm" / KERNEL_FILE
    changed.write_text(changed.read_text() + "\n# a line more\n")
    with pytest.raises(DownloadError, match=f"serves another {KERNEL_FILE} than when it was first fetched") as caught:
        describe("vllm==9.9.9")
    assert str(cache) in str(caught.value)
    assert file.read_text() == "# something else\n"


def test_the_hashes_of_wheel_and_files_are_kept(pip: FakePip, cache: Path) -> None:
    describe("vllm==9.9.9")
    folder = cache / "releases/vllm/9.9.9"
    pins = json.loads((folder / PINS).read_text())
    assert re.fullmatch("[0-9a-f]{64}", pins["wheel"])
    assert pins["files"][KERNEL_FILE] == hashlib.sha256((folder / KERNEL_FILE).read_bytes()).hexdigest()


@pytest.mark.parametrize(("text", "asked"), [("x = 1\n", 0), ("def f(\n", 1)])
def test_a_folder_without_hashes_is_taken_if_all_of_it_is_python(
    pip: FakePip, cache: Path, text: str, asked: int
) -> None:
    describe("vllm==9.9.9")
    pip.commands.clear()
    folder = cache / "releases/vllm/9.9.9"
    (folder / PINS).unlink()
    (folder / TABLES_FILE).write_text(text)
    assert wheel_module.fetch("vllm", "9.9.9") == folder
    assert len(pip.commands) == asked
    assert (folder / PINS).is_file()


def test_pip_never_installs_builds_or_resolves(pip: FakePip) -> None:
    describe("vllm==9.9.9")
    command = pip.commands[0]
    assert command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)
    assert command[-1] == "vllm==9.9.9"


def test_the_name_is_normalised_before_it_becomes_a_folder(pip: FakePip, cache: Path) -> None:
    describe("VLLM == 9.9.9")
    assert (cache / "releases/vllm/9.9.9").is_dir()


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("/usr/bin/python: No module named pip", "has no pip; run .*ensurepip"),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\n"
            "ERROR: Could not find a version that satisfies the requirement vllm==9.9.9 "
            "(from versions: none)",
            "reached no package index; connect once",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement vllm==9.9.9 "
            "(from versions: 0.1, 0.2)\n"
            "ERROR: No matching distribution found for vllm==9.9.9",
            "no such version; the latest are 0.1, 0.2",
        ),
        ("ERROR: No matching distribution found for vllm==9.9.9", "no wheel of that name"),
        ("ERROR: disk full", r"pip failed \(ERROR: disk full\)"),
    ],
)
def test_each_failure_says_what_to_do_and_leaves_nothing(
    pip: FakePip, cache: Path, output: str, complaint: str
) -> None:
    pip.output = output
    with pytest.raises(DownloadError, match=complaint) as caught:
        describe("vllm==9.9.9")
    assert "\n" not in str(caught.value)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_another_platforms_wheel_serves_where_there_is_none_for_this_machine(pip: FakePip) -> None:
    pip.output = "ERROR: No matching distribution found for vllm==9.9.9"
    with pytest.raises(DownloadError):
        describe("vllm==9.9.9")
    assert len(pip.commands) == 2
    assert "--platform=manylinux_2_28_x86_64" in pip.commands[1]


def test_a_wheel_without_the_file_is_refused_and_not_cached(pip: FakePip, cache: Path) -> None:
    (pip.engine / "vllm" / KERNEL_FILE).unlink()
    with pytest.raises(SourceNotFound, match=r"holds 0 files .*mamba_utils.py"):
        describe("vllm==9.9.9")
    assert not (cache / "releases/vllm/9.9.9").exists()


def test_a_crash_while_filling_the_cache_leaves_no_part_of_it(
    pip: FakePip, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes

    def crash(path: Path, data: bytes) -> int:
        if path.as_posix().endswith(TABLES_FILE):
            raise KeyboardInterrupt
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", crash)
    with pytest.raises(KeyboardInterrupt):
        describe("vllm==9.9.9")
    assert not [path for path in cache.rglob("*") if path.is_file()]
    monkeypatch.setattr(Path, "write_bytes", real)
    assert describe("vllm==9.9.9").files[TABLES_FILE] is not None


def test_a_folder_that_another_process_filled_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "releases" / "1"
    with cache_module.staged_folder(target) as scratch:
        (scratch / "mine").touch()
        target.mkdir()
        (target / "theirs").touch()
    assert [path.name for path in target.iterdir()] == ["theirs"]
    assert [path.name for path in target.parent.iterdir()] == ["1"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"STALEROW_CACHE": "/a/b", "XDG_CACHE_HOME": "/x"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/stalerow"),
        ({"HOME": "/h"}, "/h/.cache/stalerow"),
    ],
)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    for name in ("STALEROW_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_module.cache_root() == Path(expected)
