"""Damaged and hostile files of every kind, made by Hypothesis: no traceback, no wrong exit code, nothing run or lost.

A file of each kind is cut, flipped, repeated, or has a value replaced by one that somebody might have chosen with care.
Whatever comes out is read by the command that reads such files: it works, or it is one line and exit code 2.
"""

from __future__ import annotations

import copy
import functools
import gzip
import io
import json
import os
import signal
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stalerow.kernels.external import wheel
from stalerow.scenarios import FOLDER, load
from stalerow.scenarios.program import main
from stalerow.simulator.campaign import failures, journal, shrink
from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.campaign.fuzz import Campaign, Options
from stalerow.simulator.campaign.trials import Reduction, Trial, do
from stalerow.simulator.run.subject import Subject
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.generate import from_seed

TRACE = Path(__file__).parents[2] / "data" / "traces" / "v032_09_P1_K4_B8_full_accept.json.gz"
BATCH_ROW = Subject(kernels="reference:batch-row")
STALE = Subject(kernels="reference:req-idx", faults=("stale-accept",))
LIMIT_S = 60
EVIL = "open('ran', 'w').write('x')\n"

HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1, 2, 7, 2**31, 2**63, 10**40, -(10**40), 0.5, 1e308, "", " ", "x" * 3000, "none", "v1"),
    *("../../etc/passwd", "/dev/zero", "evil.py", "evil:made", "evil.py:made", "some-package==1.0", "vllm==99.0"),
    *("0.34", "reference:nope", "\u001b[2J", "\u0000", "\u202e", "\U0001f600", [], {}, [[]], [1, 2, 3]),
    *({"a": {"b": []}}, [None] * 50),
]


@dataclass(frozen=True)
class Kind:
    """A kind of file: its name and content, the command that reads it, and the codes that an intact one may give."""

    name: str
    content: bytes
    command: tuple[str, ...]
    codes: frozenset[int]
    before: Callable[[Path], None] = lambda folder: None


def _saved(name: str, subject: Subject) -> bytes:
    """The failure of a scenario, which is small."""
    schedule = load(FOLDER / f"{name}.toml").schedule
    assert schedule is not None
    outcome = subject.run(schedule)
    violation = outcome.violations[0]
    origin = failures.Origin(draw=Draw(7, pp=2), command="stalerow replay 7 --pp 2", kind=violation.kind)
    return failures.to_json(
        failures.Failure(
            kind=violation.kind, subject=subject, violation=violation, digest=outcome.digest, shrunk=True,
            note="as it was found", origin=origin, versions=failures.versions(), schedule=schedule,
        )
    )  # fmt: skip


FUZZ = ("fuzz", "--kernels", "reference:batch-row", "--runs", "1", "--jobs", "1", "--resume")


def _journal(over: bool) -> bytes:
    options = Options(subject=BATCH_ROW, runs=1)
    seen = Trial(Draw(7, pp=2), BATCH_ROW).do()
    noted = journal.Journal(asked=journal.asked(options), settled=1, over=over, schedules=1, kinds={"leak": 1})
    noted.known, noted.marks, noted.first_seen = [("leak", "schedule")], {"prefix hit": 1}, {"prefix hit": 1}
    noted.pending, noted.found = [Reduction(seen, BATCH_ROW, BATCH_ROW)], ["f.json"]
    return json.dumps(json.loads(journal.to_json(noted))).encode()


def _beside_the_journal(folder: Path) -> None:
    (folder / "f.json").write_bytes(_SAVED)


ADD = ("scenarios", "add", "f.json", "--folder", "made")
JOURNAL = str(journal.file_of(Options(subject=BATCH_ROW, runs=1)))
_SAVED = _saved("stale-row", BATCH_ROW)
KINDS = {
    "schedule": Kind(
        "s.json", to_json(from_seed(2)), ("run", "s.json", "--kernels", "reference:req-idx", "--quiet"), frozenset({0})
    ),
    "failure": Kind("f.json", _SAVED, ("replay", "f.json"), frozenset({0, 1})),
    "failure to add": Kind("f.json", _saved("stale-accept", STALE), ADD, frozenset({0})),
    "folder of failures": Kind("d/f.json", _SAVED, ("failures", "list", "--failures", "d"), frozenset({0})),
    "scenario": Kind(
        "s.toml", (FOLDER / "stale-accept.toml").read_bytes(), ("scenarios", "run", "s.toml"), frozenset({0, 1})
    ),
    "recording": Kind(
        "t.json", gzip.decompress(TRACE.read_bytes()), ("conform", "t.json"), frozenset({0, 1})
    ),
    "packed recording": Kind("t.json.gz", TRACE.read_bytes(), ("conform", "t.json.gz"), frozenset({0, 1})),
    "recording to run": Kind(
        "t.json",
        gzip.decompress(TRACE.read_bytes()),
        ("run", "--from-trace", "t.json", "--kernels", "reference:req-idx", "--quiet"),
        frozenset({0, 1}),
    ),
    "journal": Kind(JOURNAL, _journal(over=True), FUZZ, frozenset({0, 1}), _beside_the_journal),
    "journal under way": Kind(JOURNAL, _journal(over=False), FUZZ, frozenset({0, 1}), _beside_the_journal),
    "requests": Kind(
        "r.jsonl",
        b'{"prompt_len": 40, "output_len": 6}\n{"prompt_len": 20, "output_len": 3, "arrival": 0.5, "prefix_id": 1}\n',
        ("serve", "--dataset-path", "r.jsonl", "--kernels", "reference:req-idx", "-pp", "1", "--jobs", "1"),
        frozenset({0}),
    ),
}


def _place(draw: st.DrawFn, value: Any) -> tuple[Any, ...]:
    """A way down into the data, as likely to end near the top as in the hundredth record."""
    at: tuple[Any, ...] = ()
    while isinstance(value, (dict, list)) and value and not (at and draw(st.integers(0, 3)) == 0):
        key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
        at, value = (*at, key), value[key]
    return at


_GONE = object()


def _changed(data: Any, at: tuple[Any, ...], new: Any) -> Any:
    """The data with another value at a place, or with nothing there."""
    if not at:
        return None if new is _GONE else new
    *way, last = at
    owner = functools.reduce(lambda value, key: value[key], way, data)
    if new is _GONE:
        del owner[last]
    else:
        owner[last] = new
    return data


@st.composite
def damaged(draw: st.DrawFn, content: bytes, toml: bool) -> bytes:
    """The content with one or two of its values replaced or taken away, or with its bytes damaged."""
    how = draw(st.sampled_from(["value", "value", "value", "value", "gone", "cut", "bytes", "twice"]))
    if how in ("value", "gone"):
        try:
            data = tomllib.loads(content.decode()) if toml else json.loads(content)
        except ValueError:
            how = "bytes"
        else:
            for _ in range(draw(st.integers(1, 2))):
                at, new = _place(draw, data), draw(st.sampled_from(HOSTILE))
                data = _changed(data, at, _GONE if how == "gone" else new)
            return _toml(data).encode("utf-8", "replace") if toml else json.dumps(data).encode()
    begin = draw(st.integers(0, len(content) - 1))
    end = min(begin + draw(st.integers(1, 40)), len(content))
    if how == "cut":
        return content[:begin]
    if how == "twice":
        return content[:end] + content[begin:]
    return content[:begin] + draw(st.binary(max_size=12)) + content[end:]


def _toml(value: Any) -> str:
    """TOML of parsed TOML: inline below the first level. What TOML cannot say is written as JSON says it."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "".join(f"{json.dumps(key)} = {_inline(item)}\n" for key, item in value.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return str(value) if not isinstance(value, (str, bool, int, float, type(None))) else json.dumps(value)


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


@pytest.mark.parametrize("kind", KINDS)
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
        assert (place / "f.json").read_bytes() == _SAVED
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
        for key in value if isinstance(value, dict) else range(min(len(value), 3)):
            yield from _texts(value[key], (*at, key))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not KINDS[kind].name.endswith(".gz")])
def test_whatever_text_names_a_program_runs_none(kind: str, place: Path) -> None:
    """Every text of the file, one after the other, becomes the name of something to run or to fetch."""
    about = KINDS[kind]
    toml = about.name.endswith(".toml")
    lines = about.content.splitlines() if about.name.endswith(".jsonl") else [about.content]
    data = tomllib.loads(lines[0].decode()) if toml else json.loads(lines[0])
    refused = 0
    # A campaign that goes on takes seconds: only what says who runs is changed there.
    places = [at for at in _texts(data) if kind != "journal under way" or {"subject", "finder"} & {*map(str, at)}]
    for at in places:
        before = functools.reduce(lambda value, key: value[key], at, data)
        changes = MORE if isinstance(before, dict) else PROGRAMS
        for new in changes:
            made = copy.deepcopy(data)
            made = _changed(made, at, before | new if isinstance(before, dict) and isinstance(new, dict) else new)
            content = _toml(made).encode() if toml else json.dumps(made).encode()
            refused += _judge(kind, b"\n".join([content, *lines[1:]]), place) == 2
    assert refused >= 2


PROGRAMS = ("evil.py", "evil:made", "./evil", "some-package==1.0")
MORE: tuple[dict[str, Any], ...] = (
    {"kernels": "evil.py"},
    {"kernels": "evil:made"},
    {"kernels": "some-package==1.0"},
    {"faults": ["evil.py:made"]},
    {"faults": ["evil.py"]},
    {"worker": "./evil", "python": "./evil"},
)
EXAMPLES = int(os.environ.get("STALEROW_DAMAGED", "40"))
"""Files of each kind."""
KNOWN = {"evil.py", "evil", "__pycache__", "made", "f.json", ".stalerow", "cache", "fetched"}
