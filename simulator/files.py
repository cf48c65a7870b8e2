"""Data files: read with one line for whatever may be wrong with them, written beside and renamed.

In: a path. Out: what JSON or TOML says, as Python's own values, or a `UsageError` naming the file, the fault and the
remedy. Nothing here knows what the data means.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from stalerow.simulator.errors import UsageError

LARGEST = 64 << 20
"""Bytes of the largest data file that is read: recorded runs unpacked are a tenth of it."""


_FOREIGN = re.compile(r"(?:contains unknown field|Invalid enum value) [`'](\w+)[`'](?: - at `\$\.?([^`]*)`)?")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read_data(path: str | os.PathLike[str], wanted: str) -> Any:
    """What a .json or .toml file says (JSON unless its name ends in .toml, in any case); `wanted` names it in errors.

    A byte order mark is skipped. A key given twice is refused, since one of the two values would silently go.
    """
    path = Path(path)
    try:
        raw = read_bounded(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: cannot be read ({why}): give {wanted}") from None
    return parse_data(raw, str(path), toml=path.suffix.lower() == ".toml")


def read_bounded(path: str | os.PathLike[str]) -> bytes:
    """All that a file holds. ValueError if that is more than `LARGEST` bytes, which a device's may be without end."""
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"more than the {LARGEST:,} bytes that are read")
    return data


def parse_data(raw: bytes, source: str, toml: bool = False) -> Any:
    """What the bytes of a JSON (or TOML) file say; `source` names it in errors."""
    try:
        text = raw.decode("utf-8-sig")
        data = tomllib.loads(text) if toml else json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        _refuse_escapes(data)
        return data
    except RecursionError:
        raise UsageError(f"{source}: nested too deeply to be read: no file of stalerow is") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except ValueError as error:  # also of integers with thousands of digits
        kind = "TOML" if toml else "JSON"
        raise UsageError(f"{source}: not valid {kind}: {one_line(error)}") from None


def not_modelled(error: Exception) -> str:
    """What a file names that its type does not know, and where, from the error of validating it; "" if nothing is."""
    found = _FOREIGN.search(str(error))
    return f"{found[1]} ({found[2] or 'at its top'})" if found else ""


def _refuse_escapes(value: Any) -> None:
    """What a file says is shown on terminals: control characters there would be commands."""
    if isinstance(value, str):
        found = _CONTROL.search(value)
        if found:
            raise ValueError(f"text has the control character {found[0]!r}: leave it out")
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_escapes(key)
            _refuse_escapes(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_escapes(item)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} is given twice in one object: leave one of them out")
    return made


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def write_beside(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a broken one.

    A link keeps leading to it. A device, a pipe and what is standard output are added to: their names stay theirs.
    """
    path = Path(path)
    if "\0" in str(path):
        raise UsageError(f"{str(path)!r}: no file can have this name: choose another")
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_stream(path):
        with open(path, "ab") as file:
            file.write(data)
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Whether there is something at `path` that no file may be put in place of."""
    try:
        there = path.stat()
    except OSError:
        return False
    ours = []
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            ours.append(os.fstat(descriptor))
    regular = stat.S_ISREG(there.st_mode) or stat.S_ISDIR(there.st_mode)
    return not regular or any(os.path.samestat(there, one) for one in ours)


def one_line(error: object) -> str:
    """An error's message without its line breaks."""
    return " ".join(str(error).split())
