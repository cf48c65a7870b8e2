"""Names to faults: the catalogue's own, and those that a user wrote in a Python file.

`resolve` is what `--fault` goes through: "stale-accept", "mine.py" (every fault in the file) or "mine.py:NAME" (one of
them, by fault name or class name).
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.faults.combine import Faults


@functools.cache
def builtin_faults() -> Mapping[str, type[Fault]]:
    """The catalogue's faults by name, in alphabetical order."""
    found: dict[str, type[Fault]] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        for fault in _faults_of(importlib.import_module(f"{__package__}.{module.name}")):
            found[fault.name] = fault
    return dict(sorted(found.items()))


def resolve(names: Sequence[str]) -> Faults:
    """The named faults, combined. Raises `UsageError` for a name or a file that has none."""
    chosen: list[type[Fault]] = []
    for name in names:
        chosen += _from_file(name) if _is_file(name) else [_builtin(name)]
    known = [fault.name for fault in chosen]
    for name in known:
        if known.count(name) > 1:
            raise UsageError(f"fault {name!r} is named {known.count(name)} times: name it once")
    return Faults(chosen)


def _builtin(name: str) -> type[Fault]:
    known = builtin_faults()
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
        raise UsageError(f"unknown fault {name!r}: {hint} (or give a Python file, FILE.py or FILE.py:NAME)")
    return known[name]


def _is_file(name: str) -> bool:
    return name.partition(".py")[1] == ".py"


def _from_file(text: str) -> list[type[Fault]]:
    head, _, wanted = text.rpartition(":") if not text.endswith(".py") else (text, "", "")
    path = Path(head)
    faults = _faults_of(_load(path))
    if not faults:
        raise UsageError(f"{path}: defines no fault: subclass stalerow.simulator.faults.Fault and give it a name")
    if not wanted:
        return faults
    found = [f for f in faults if wanted in (f.name, f.__name__)]
    if not found:
        raise UsageError(f"{path}: no fault {wanted!r}: it defines {', '.join(f.name for f in faults)}")
    return found


def _load(path: Path) -> ModuleType:
    name = f"stalerow_fault_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UsageError(f"{path}: no such file: give a Python file that defines a Fault")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _faults_of(module: ModuleType) -> list[type[Fault]]:
    """The named faults that a module itself defines, in the order of definition."""
    return [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Fault) and item.name and item.__module__ == module.__name__
    ]
