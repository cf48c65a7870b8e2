"""Compiled kernels on disk: one file a kernel, signature and host, named after everything that the code depends on.

A file holds its own digest. One that is damaged, or written by something else, is compiled again; files are written
beside and renamed, so that processes can share the folder.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from stalerow.kernels.compiled import native
from stalerow.kernels.compiled.sites import Site

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct, frozen=True):
    """What a file holds."""

    code: bytes
    sites: list[Site]
    shared_bytes: int = 0


_decode = msgspec.msgpack.Decoder(_Entry).decode


def compiled(
    fn: Any, signature: Mapping[str, str], constants: Mapping[tuple[int, ...], Any]
) -> tuple[native.Run, Sequence[Site]]:
    """A kernel for one signature, from the cache or compiled now. Raises what compiling raises."""
    entry = _entry(fn, signature, constants, False)
    return native.load(entry.code), entry.sites


def interleaved(
    fn: Any, signature: Mapping[str, str], constants: Mapping[tuple[int, ...], Any]
) -> tuple[native.Interleaved, Sequence[Site]]:
    """The same in the form whose programs can be interleaved."""
    entry = _entry(fn, signature, constants, True)
    return native.load_interleaved(entry.code, entry.shared_bytes), entry.sites


def _entry(
    fn: Any, signature: Mapping[str, str], constants: Mapping[tuple[int, ...], Any], interleaved: bool
) -> _Entry:
    key = _key(fn, signature, constants)
    path = folder() / f"{fn.__name__}-{key}{'-interleaved' if interleaved else ''}.kernel"
    entry = _read(path)
    if entry is None:
        entry = _build(fn, signature, constants, interleaved)
        _write(path, entry)
    return entry


def folder() -> Path:
    """Where compiled kernels are kept."""
    from stalerow.kernels.base.cached import cache_root

    return cache_root() / "compiled"


def _key(fn: Any, signature: Mapping[str, str], constants: Mapping[tuple[int, ...], Any]) -> str:
    code = fn.fn.__code__
    said: list[Any] = [_translator(), native.host(), fn.cache_key, code.co_filename, sorted(signature.items())]
    said += [(place, getattr(value, "cache_key", None) or repr(value)) for place, value in sorted(constants.items())]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def _translator() -> str:
    """This package's own sources and Triton's version."""
    digest = hashlib.sha256(version("triton").encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _build(
    fn: Any, signature: Mapping[str, str], constants: Mapping[tuple[int, ...], Any], interleaved: bool
) -> _Entry:
    from stalerow.kernels.compiled.frontend import lower
    from stalerow.kernels.compiled.function import Translation

    translation = Translation(lower(fn, signature, constants), interleaved)
    code = native.machine_code(str(translation.module), coroutines=interleaved)
    return _Entry(code, translation.sites, translation.shared_bytes)


def _read(path: Path) -> _Entry | None:
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, body = stored[:32], stored[32:]
    if hashlib.sha256(body).digest() != digest:
        log.warning("%s is damaged; compiling it again", path)
        return None
    return _decode(body)


def _write(path: Path, entry: _Entry) -> None:
    from stalerow.kernels.base.cached import write_file

    body = msgspec.msgpack.encode(entry)
    try:
        write_file(path, hashlib.sha256(body).digest() + body)
    except OSError as error:
        log.warning("cannot keep a compiled kernel in %s: %s", path.parent, error)
