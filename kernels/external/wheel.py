"""A published release, reduced to the few source files that matter: fetched with pip, never installed.

``fetch("vllm", "0.30.0")`` downloads the wheel with pip in a process of its own, copies the files named in
`ENGINE_FILES` out of it into the cache, and drops the wheel. A second call finds them and downloads nothing, unless
they are damaged (`pins`).
"""

import ast
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from stalerow.kernels.base.cached import cache_root, staged_folder

from .errors import DownloadError, SourceNotFound
from .pins import intact, pin, refuse_other, sha256

log = logging.getLogger(__name__)

KERNEL_FILE = "v1/worker/mamba_utils.py"
CALLER_FILE = "v1/worker/gpu/model_states/mamba_hybrid.py"
TABLES_FILE = "v1/worker/gpu/block_table.py"
INDICES_FILE = "v1/attention/backends/utils.py"
# Paths relative to the engine's package, in the order in which a description lists them.
ENGINE_FILES = (KERNEL_FILE, CALLER_FILE, TABLES_FILE, INDICES_FILE)

# Wheels carry the platform in their names, their Python sources do not depend on it: where there is no wheel
# for the machine at hand, the one for Linux on x86-64 serves as well.
_ANY_PLATFORM = (
    "manylinux_2_35_x86_64",
    "manylinux_2_31_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux1_x86_64",
)

_NO_NETWORK = re.compile(
    r"NewConnectionError|ConnectionError|connection broken|Temporary failure in name resolution|"
    r"Name or service not known|Network is unreachable|ConnectTimeout|Read timed out|ProxyError|SSLError",
    re.IGNORECASE,
)
_NO_VERSION = re.compile(r"No matching distribution found|Could not find a version", re.IGNORECASE)
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")


def fetch(distribution: str, version: str) -> Path:
    """The cached folder with the files of `distribution` at exactly `version`, downloaded if need be.

    Raises `DownloadError` when pip or the network is missing, there is no such version or it is another file than the
    first time, and `SourceNotFound` when the wheel has no ``v1/worker/mamba_utils.py``.
    """
    target, requirement = cache_root() / "releases" / distribution / version, f"{distribution}=={version}"
    if intact(target, KERNEL_FILE):
        return target
    damaged = target.is_dir()
    again = f", since {target} is damaged" if damaged else ", once"
    log.info("fetching the wheel of %s (hundreds of megabytes%s)", requirement, again)
    with staged_folder(target) as scratch, tempfile.TemporaryDirectory(prefix="stalerow-wheel-") as folder:
        wheel = _download(requirement, Path(folder))
        _copy_sources(wheel, scratch)
        pin(scratch, sha256(wheel))
        if damaged:
            refuse_other(target, scratch, requirement)
            shutil.rmtree(target)
    return target


def _download(requirement: str, folder: Path) -> Path:
    # --only-binary: an sdist would have to be built, which runs the engine's own code.
    # --no-cache-dir: the wheel is not needed again, and pip's cache would keep all of it.
    base = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    base += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", "--retries=2", "--timeout=20"]
    platforms = [f"--platform={name}" for name in _ANY_PLATFORM]
    said = ""
    for extra in ([], platforms):
        run = subprocess.run(
            [*base, *extra, "--dest", str(folder), requirement],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        if run.returncode == 0:
            wheels = sorted(folder.glob("*.whl"))
            if len(wheels) == 1:
                return wheels[0]
            said = f"pip left {len(wheels)} wheels, expected 1"
            break
        said = said or f"{run.stdout}\n{run.stderr}"
        if not _NO_VERSION.search(said) or _NO_NETWORK.search(said):
            break
    raise DownloadError(_explain(requirement, said))


def _explain(requirement: str, said: str) -> str:
    instead = "or give the path of a checkout, of an installed package's folder or of a mamba_utils.py instead"
    if "No module named pip" in said:
        return (
            f"cannot fetch {requirement}: this Python ({sys.executable}) has no pip; "
            f"run `{sys.executable} -m ensurepip`, {instead}"
        )
    if _NO_NETWORK.search(said):
        return (
            f"cannot fetch {requirement}: pip reached no package index; "
            f"connect once (the sources are then cached), {instead}"
        )
    if _NO_VERSION.search(said):
        listed = _VERSIONS.search(said)
        known = [v.strip() for v in listed.group(1).split(",")] if listed else []
        if known and known != ["none"]:
            latest = ", ".join(known[-6:])
            return (
                f"cannot fetch {requirement}: no such version; the latest are {latest}; take one that exists, {instead}"
            )
        return f"cannot fetch {requirement}: the index has no wheel of that name; check the spelling, {instead}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    return f"cannot fetch {requirement}: pip failed ({last}); try it by hand, {instead}"


def _copy_sources(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        roots = sorted(name[: -len(KERNEL_FILE)] for name in names if name.endswith(f"/{KERNEL_FILE}"))
        if len(roots) != 1:
            raise SourceNotFound(
                f"{wheel.name} holds {len(roots)} files */{KERNEL_FILE}, expected 1; "
                "the align kernels live there since vllm 0.25.0"
            )
        for relative in (*ENGINE_FILES, *_helpers(archive, names, roots[0])):
            if (member := roots[0] + relative) in names:
                path = target / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))


def _helpers(archive: zipfile.ZipFile, names: set[str], root: str) -> list[str]:
    """Files with kernels that the kernels' file imports from, and those that they import from (0.34 has one)."""
    found: list[str] = []
    todo = [KERNEL_FILE]
    while todo:
        tree = ast.parse(archive.read(root + todo.pop()))
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                continue
            relative = "/".join(node.module.split(".")[1:]) + ".py"
            if relative in found or root + relative not in names or b"triton.jit" not in archive.read(root + relative):
                continue
            found.append(relative)
            todo.append(relative)
    return found
