"""Damaged and hostile files of every kind, made by Hypothesis: no traceback, no wrong exit code, nothing run or lost.

Whatever the file has become, the command that reads such files works, or says one line and ends with exit code 2.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import os
import signal
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from files_of_every_kind import JOURNAL, KINDS, SAVED, Kind, changed, damaged, toml
from hypothesis import HealthCheck, given, settings

from stalerow.kernels.external import wheel
from stalerow.scenarios.program import main
from stalerow.simulator.campaign import shrink
from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.campaign.fuzz import Campaign
from stalerow.simulator.campaign.trials import do

LIMIT_S = 1800
EVIL = "open('ran', 'w').write('x')\n"


@contextmanager
def _in_time() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise AssertionError(f"no end within {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _run(command: tuple[str, ...]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), _in_time():
        code = main(command)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "journal under way"])
def test_an_intact_file_is_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, KINDS[kind], KINDS[kind].content)
    code, _, err = _run(KINDS[kind].command)
    assert code in KINDS[kind].codes, err


def _write(folder: Path, kind: Kind, content: bytes) -> Path:
    path = folder / kind.name
    path.parent.mkdir(parents=True, exist_ok=True)
    kind.before(folder)
    path.write_bytes(content)
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Python that tells when it is run; what would be fetched is written down, and workers work here."""

    def no_download(requirement: str, folder: Path) -> Path:
        with (tmp_path / "fetched").open("a") as file:
            file.write(f"{requirement}\n")
        raise wheel.DownloadError(f"cannot fetch {requirement}: not in a test")

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(wheel, "_download", no_download)
    monkeypatch.setattr(Campaign, "_executor", lambda *_: InProcess(do))
    monkeypatch.setattr(shrink, "BUDGET", 2)
    monkeypatch.setenv("STALEROW_CACHE", str(tmp_path / "cache"))
    (tmp_path / "evil.py").write_text(EVIL)
    program = tmp_path / "evil"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    return tmp_path


def _judge(kind: str, content: bytes, place: Path) -> int:
    """Let the command read the file; whatever it says, this must hold."""
    about = KINDS[kind]
    path = _write(place, about, content)
    code, out, err = _run(about.command)
    assert code in about.codes | {2}, (code, err)
    assert "Traceback" not in out + err
    if code == 2:
        errors = [line for line in err.splitlines() if line.startswith("stalerow: ")]
        assert len(errors) == 1, err
        assert len(errors[0]) < 4000
    assert "\u001b" not in out + err
    if about.name == JOURNAL:  # which its campaign writes anew
        assert (place / "f.json").read_bytes() == SAVED
    else:
        assert path.read_bytes() == content
    assert not (place / "ran").exists(), "a file ran a program"
    fetched = place / "fetched"
    assert all(line.startswith("vllm==") for line in fetched.read_text().splitlines()) if fetched.exists() else True
    for made in (place / "made").glob("*"):
        made.unlink()
    assert {p.name for p in place.iterdir()} <= KNOWN | {Path(about.name).parts[0]}
    return code


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "journal under way"])
def test_a_damaged_file_is_one_line_and_nothing_is_run_or_lost(kind: str, place: Path) -> None:
    about = KINDS[kind]

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), print_blob=True)
    @given(damaged(about.content, about.name.endswith(".toml")))
    def every(content: bytes) -> None:
        _judge(kind, content, place)

    every()


def _texts(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the data has text, and where it has objects."""
    if isinstance(value, (dict, str)):
        yield at
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(min(len(value), 1)):
            yield from _texts(value[key], (*at, key))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not KINDS[kind].name.endswith(".gz")])
def test_whatever_text_names_a_program_runs_none(kind: str, place: Path) -> None:
    """Every text of the file, one after the other, becomes the name of something to run or to fetch."""
    about = KINDS[kind]
    is_toml = about.name.endswith(".toml")
    lines = about.content.splitlines() if about.name.endswith(".jsonl") else [about.content]
    data = tomllib.loads(lines[0].decode()) if is_toml else json.loads(lines[0])
    refused = 0
    # A campaign that goes on takes seconds: only what says who runs is changed there.
    places = [at for at in _texts(data) if kind != "journal under way" or {"subject", "finder"} & {*map(str, at)}]
    for at in places:
        before = functools.reduce(lambda value, key: value[key], at, data)
        changes = MORE if isinstance(before, dict) else PROGRAMS
        for new in changes:
            made = copy.deepcopy(data)
            made = changed(made, at, before | new if isinstance(before, dict) and isinstance(new, dict) else new)
            content = toml(made).encode() if is_toml else json.dumps(made).encode()
            refused += _judge(kind, b"\n".join([content, *lines[1:]]), place) == 2
    assert refused >= 2


PROGRAMS = ("evil.py", "./evil", "some-package==1.0")
MORE: tuple[dict[str, Any], ...] = (
    {"kernels": "evil:made"},
    {"faults": ["evil.py:made"]},
    {"worker": "./evil", "python": "./evil"},
)
EXAMPLES = int(os.environ.get("STALEROW_DAMAGED", "40"))
"""Files of each kind."""
KNOWN = {"evil.py", "evil", "__pycache__", "made", "f.json", ".stalerow", "cache", "fetched"}
