"""The file of a saved failure: the schedule, what ran it, how it failed and with which versions.

`fuzz` and the pytest plugin write it (a crash leaves the old file or the new one); `replay` reads it. A file that an
older or newer release wrote is read field by field: what fits is used, what does not is named.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from stalerow.simulator.campaign.salvage import salvage
from stalerow.simulator.campaign.workers import alive
from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import read_data, write_beside
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.file import modern
from stalerow.simulator.schedule.values import Schedule, validate
from stalerow.simulator.subject.subject import Subject

FORMAT = 2
FOLDER = Path(".stalerow") / "failures"
CRASH = "crash"
HANG = "hang"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The run in which the failure was found, before shrinking. `command` runs it again."""

    draw: Draw | None = None
    command: str = ""
    kind: str = ""
    launch: str = ""
    digest: str = ""
    requests: int = 0
    decisions: int = 0


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A saved failure. `violation` is the first of the run and `digest` the run's; both are None for a crash."""

    failure_format: int = FORMAT
    kind: str
    subject: Subject
    violation: Violation | None = None
    digest: str | None = None
    shrunk: bool = False
    note: str = ""
    origin: Origin = Origin()
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    schedule: Schedule

    @property
    def signature(self) -> tuple[str, str]:
        """Kind and launch: failures with the same signature are one finding."""
        return self.kind, self.violation.launch if self.violation else ""


class Loaded(msgspec.Struct, frozen=True):
    """A failure as read from `path`. `problems` says, one sentence each, what no longer fits and what was done."""

    path: Path
    failure: Failure
    problems: tuple[str, ...] = ()


def versions() -> dict[str, str]:
    """What the digest and the shrinking may depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("stalerow", "numpy", "triton", "torch", "hypothesis"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def to_json(failure: Failure) -> bytes:
    return msgspec.json.format(msgspec.json.encode(failure), indent=2) + b"\n"


def name(failure: Failure, prefix: str = "") -> str:
    """The file's name: kind, launch, what ran, and the draw (or `prefix`)."""
    kind, launch = failure.signature
    draw = failure.origin.draw
    where = prefix or ("drawn" if draw is None else draw.name)
    parts = [kind, launch, failure.subject.worker or failure.subject.kernels, *failure.subject.faults, where]
    return "-".join(_slug(part) for part in parts if part) + ".json"


def save(failure: Failure, folder: str | os.PathLike[str] = FOLDER, prefix: str = "") -> Path:
    """Write the failure to its `place`. Returns the path."""
    path = place(failure, folder, prefix)
    write_beside(path, to_json(failure))
    return path


def place(failure: Failure, folder: str | os.PathLike[str] = FOLDER, prefix: str = "") -> Path:
    """Where the failure goes: over an earlier state of the same finding, and over nothing else."""
    path = Path(folder) / name(failure, prefix)
    stem, number = path.stem, 1
    while _is_another(path, failure):
        number += 1
        path = path.with_name(f"{stem}-{number}.json")
    return path


def _is_another(path: Path, failure: Failure) -> bool:
    """Whether there is a file that holds anything but this finding."""
    if not path.exists():
        return False
    try:
        return _identity(load(path).failure) != _identity(failure)
    except UsageError:
        return True


def _identity(failure: Failure) -> tuple[object, ...]:
    """What stays the same while a finding is shrunk."""
    origin = failure.origin
    return failure.signature, failure.subject, origin.draw, origin.digest or failure.digest


def sweep(folder: str | os.PathLike[str] = FOLDER) -> None:
    """Remove the half-written files of processes that were killed."""
    for path in Path(folder).glob(".*.tmp"):
        pid = re.search(r"\.(\d+)\.tmp$", path.name)
        if pid and not alive(int(pid[1])):
            path.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Loaded:
    """Read a saved failure. Raises `UsageError` where not even the schedule can be made out."""
    path = Path(path)
    data = read_data(path, "a seed or a file")
    if not isinstance(data, dict) or "schedule" not in data:
        raise UsageError(f"{path}: not a saved failure: it has no 'schedule'")
    problems: list[str] = []
    _check_formats(data, problems)
    failure = salvage(data, Failure, "", problems, str(path))
    try:
        validate(failure.schedule)
    except UsageError as error:
        raise UsageError(f"{path}: {'; '.join([*problems, str(error)])}") from None
    return Loaded(path, failure, tuple(problems))


def is_failure(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a saved failure and not a bare schedule."""
    try:
        data = read_data(path, "a saved failure")
    except UsageError:
        return False
    return isinstance(data, dict) and "schedule" in data


def saved(folder: str | os.PathLike[str] = FOLDER) -> Sequence[Path]:
    """The files of saved failures, by name."""
    return sorted(Path(folder).glob("*.json"))


def _check_formats(data: dict[str, Any], problems: list[str]) -> None:
    found = data.get("failure_format", 0)
    if found == 1:
        data["failure_format"], data["origin"] = FORMAT, _modern_origin(data.get("origin"))
    elif found != FORMAT:
        problems.append(f"failure_format is {found}, this release writes {FORMAT}: read field by field")
        data["failure_format"] = FORMAT
    schedule = data["schedule"] = modern(data["schedule"])
    known = Schedule.__struct_fields__.index("format")
    expected = Schedule.__struct_defaults__[known]
    if isinstance(schedule, dict) and schedule.get("format", expected) != expected:
        problems.append(f"schedule.format is {schedule['format']}, this release reads {expected}: read field by field")
        data["schedule"] = schedule | {"format": expected}


def _modern_origin(origin: Any) -> Any:
    """Format 1 kept the seed alone; its command says the rest."""
    if not isinstance(origin, dict) or "seed" not in origin:
        return origin if origin is not None else {}
    kept = {key: value for key, value in origin.items() if key != "seed"}
    return kept if origin["seed"] is None else kept | {"draw": {"seed": origin["seed"]}}


def _slug(text: str) -> str:
    """Fit for a file name, of which it is a part; `place` tells apart what looks alike here."""
    return re.sub(r"[^A-Za-z0-9.]+", "_", text).strip("_")[-80:]
