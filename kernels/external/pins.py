"""What a cached release was when it was fetched: the hash of its wheel and of every file, kept beside the files.

A folder whose files are not what was fetched is fetched again, and what comes then must be what came the first time.
"""

import ast
import hashlib
import json
from pathlib import Path

from stalerow.kernels.base.cached import write_file

from .errors import DownloadError

PINS = "pins.json"


def pin(folder: Path, wheel: str) -> None:
    """Write down what is in `folder`; `wheel` is the hash of the file that it came out of ("" if that is gone)."""
    pins = {"wheel": wheel, "files": _hashes(folder)}
    write_file(folder / PINS, json.dumps(pins, indent=2, sort_keys=True) + "\n")


def intact(folder: Path, needed: str) -> bool:
    """Whether `folder` holds what was fetched, the file `needed` at least.

    A folder that says nothing of hashes is taken as it is if all of it is Python, and says them from then on.
    """
    if not (folder / needed).is_file():
        return False
    pins = _read(folder)
    if pins is not None:
        return pins["files"] == _hashes(folder)
    try:
        for path in folder.rglob("*.py"):
            ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return False
    pin(folder, "")
    return True


def refuse_other(before: Path, after: Path, requirement: str) -> None:
    """Raise `DownloadError` if what was fetched now differs from what `before` says was fetched the first time."""
    pins = _read(before)
    if pins is None or pins["files"] == (found := _hashes(after)):
        return
    names = sorted(n for n in {*pins["files"], *found} if pins["files"].get(n) != found.get(n))
    raise DownloadError(
        f"{requirement}: the index now serves another {names[0]} than when it was first fetched; "
        f"remove {before} if you trust the new one"
    )


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hashes(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): sha256(path) for path in sorted(folder.rglob("*.py"))}


def _read(folder: Path) -> dict[str, dict[str, str]] | None:
    try:
        pins = json.loads((folder / PINS).read_bytes())
    except (OSError, ValueError):
        return None
    whole = isinstance(pins, dict) and isinstance(pins.get("files"), dict)
    return pins if whole else None
