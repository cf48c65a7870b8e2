"""A file of every kind that is read, and what Hypothesis makes of it: cut, flipped, repeated, a value replaced."""

from __future__ import annotations

import functools
import gzip
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from stalerow.scenarios import FOLDER, load
from stalerow.simulator.campaign import failures, journal
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.trials import Reduction, Trial
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.file import to_json
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject

TRACE = Path(__file__).parents[2] / "data" / "traces" / "v032_09_P1_K4_B8_full_accept.json.gz"
BATCH_ROW = Subject(kernels="reference:batch-row")
STALE = Subject(kernels="reference:req-idx", faults=("stale-accept",))

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


def _scheduled(name: str) -> Schedule:
    schedule = load(FOLDER / f"{name}.toml").schedule
    assert schedule is not None
    return schedule


def _saved(name: str, subject: Subject) -> bytes:
    """The failure of a scenario, which is small."""
    schedule = _scheduled(name)
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
    (folder / "f.json").write_bytes(SAVED)


ADD = ("scenarios", "add", "f.json", "--folder", "made")
JOURNAL = str(journal.file_of(Options(subject=BATCH_ROW, runs=1)))
SAVED = _saved("stale-row", BATCH_ROW)
RUN = ("run", "s.json", "--kernels", "reference:req-idx", "--quiet")
KINDS = {
    "schedule": Kind("s.json", to_json(_scheduled("stale-accept")), RUN, frozenset({0})),
    "failure": Kind("f.json", SAVED, ("replay", "f.json"), frozenset({0, 1})),
    "failure to add": Kind("f.json", _saved("stale-accept", STALE), ADD, frozenset({0})),
    "folder of failures": Kind("d/f.json", SAVED, ("failures", "list", "--failures", "d"), frozenset({0})),
    "scenario": Kind(
        "s.toml", (FOLDER / "stale-accept.toml").read_bytes(), ("scenarios", "run", "s.toml"), frozenset({0, 1})
    ),
    "recording": Kind("t.json", gzip.decompress(TRACE.read_bytes()), ("conform", "t.json"), frozenset({0, 1})),
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


def changed(data: Any, at: tuple[Any, ...], new: Any) -> Any:
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
def damaged(draw: st.DrawFn, content: bytes, is_toml: bool) -> bytes:
    """The content with one or two of its values replaced or taken away, or with its bytes damaged."""
    how = draw(st.sampled_from(["value", "value", "value", "value", "gone", "cut", "bytes", "twice"]))
    if how in ("value", "gone"):
        try:
            data = tomllib.loads(content.decode()) if is_toml else json.loads(content)
        except ValueError:
            how = "bytes"
        else:
            for _ in range(draw(st.integers(1, 2))):
                at, new = _place(draw, data), draw(st.sampled_from(HOSTILE))
                data = changed(data, at, _GONE if how == "gone" else new)
            return toml(data).encode("utf-8", "replace") if is_toml else json.dumps(data).encode()
    begin = draw(st.integers(0, len(content) - 1))
    end = min(begin + draw(st.integers(1, 40)), len(content))
    if how == "cut":
        return content[:begin]
    if how == "twice":
        return content[:end] + content[begin:]
    return content[:begin] + draw(st.binary(max_size=12)) + content[end:]


def toml(value: Any) -> str:
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
