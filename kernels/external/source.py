"""From the name that the user gave to source text: a release, a checkout, a package's folder, or one file.

Only text is read. The result goes to ``extract`` (the kernels) and ``convention`` (what their caller does).
"""

import ast
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from .bind import Value, split
from .errors import ExternalKernelError, SourceNotFound
from .wheel import ENGINE_FILES, KERNEL_FILE, fetch

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([A-Za-z0-9][A-Za-z0-9.+!_-]*)")


@dataclass(frozen=True)
class SourceFile:
    """One file of an engine: its path, and its text as read when the kernels were loaded."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed module; raises `ExternalKernelError` for text that is not Python."""
        try:
            return ast.parse(self.text, filename=str(self.path))
        except SyntaxError as error:
            raise ExternalKernelError(f"{self.path}:{error.lineno}: not valid Python ({error.msg}); fix it") from error

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def segment(self, node: ast.AST) -> str:
        """The source of `node` on one line."""
        return " ".join((ast.get_source_segment(self.text, node) or ast.unparse(node)).split())


@dataclass(frozen=True)
class EngineSource:
    """The files of one engine that matter here.

    `name` is what the user gave, `origin` one of ``release``, ``checkout`` and ``file``; `files` maps the
    paths of `ENGINE_FILES` to those that exist, always including `KERNEL_FILE`.
    """

    name: str
    origin: str
    files: dict[str, SourceFile] = field(hash=False)
    binds: dict[str, Value] = field(hash=False, default_factory=dict)
    package: Path | None = None

    @property
    def kernels(self) -> SourceFile:
        return self.files[KERNEL_FILE]

    def imported(self, statement: ast.ImportFrom) -> SourceFile | None:
        """The engine's own file that `statement` imports from, None if it is another package's or not at hand."""
        path = None
        if statement.level == 0 and statement.module and self.package is not None:
            _, *parts = statement.module.split(".")
            path = self.package.joinpath(*parts).with_suffix(".py") if parts else None
        elif statement.module:
            path = self.kernels.path.with_name(statement.module.rpartition(".")[2] + ".py")
        return _read_file(path) if path is not None and path.is_file() else None


def find(name: str) -> EngineSource:
    """The source that `name` stands for.

    `name` is ``vllm==0.30.0`` (any distribution, one exact version), a folder holding the engine's package (a
    checkout, site-packages) or being it, or a ``mamba_utils.py``. A single file that still sits in its
    package is read together with the files around it. Values for parameters may stand behind it (``bind``). Raises
    `SourceNotFound`, `DownloadError` or `BadBinding`.
    """
    bare, binds = split(name)
    return replace(_find(bare), name=name, binds=binds)


def _find(name: str) -> EngineSource:
    if not Path(name).exists() and (pinned := _PINNED.fullmatch(name.strip())):
        distribution = re.sub(r"[-_.]+", "-", pinned.group(1)).lower()
        return _read(name, "release", fetch(distribution, pinned.group(2)))
    path = Path(name).expanduser()
    if path.is_file():
        inside = path.resolve()
        if inside.as_posix().endswith(f"/{KERNEL_FILE}"):
            return _read(name, "checkout", inside.parents[2])
        return EngineSource(name, "file", {KERNEL_FILE: _read_file(path)})
    if path.is_dir():
        return _read(name, "checkout", _package_in(path))
    raise SourceNotFound(
        f"{name}: neither a release (such as vllm==0.33.0) nor a file or folder that exists; "
        "give one exact version, or the path of a checkout or of a mamba_utils.py"
    )


def _package_in(folder: Path) -> Path:
    for package in (folder, folder / "vllm", folder / "src" / "vllm"):
        if (package / KERNEL_FILE).is_file():
            return package
    # A fork may have renamed the package.
    renamed = sorted(
        found.parents[2] for found in (*folder.glob(f"*/{KERNEL_FILE}"), *folder.glob(f"src/*/{KERNEL_FILE}"))
    )
    if len(renamed) == 1:
        return renamed[0]
    if renamed:
        listed = ", ".join(str(package) for package in renamed)
        raise SourceNotFound(f"{folder}: {len(renamed)} packages hold {KERNEL_FILE} ({listed}); give one of them")
    raise SourceNotFound(
        f"{folder}: no vllm/{KERNEL_FILE} in it; give the root of a checkout, the package's folder, or the file itself"
    )


def _read(name: str, origin: str, package: Path) -> EngineSource:
    found = {relative: _read_file(package / relative) for relative in ENGINE_FILES if (package / relative).is_file()}
    return EngineSource(name, origin, found, package=package)


def _read_file(path: Path) -> SourceFile:
    try:
        return SourceFile(path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SourceNotFound(f"{path}: cannot be read ({error}); expected an engine's Python source") from error
