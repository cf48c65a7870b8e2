"""The repository as the tidy rules see it: the text of every file that is kept, and what its Python says.

A `Repository` is a mapping of paths to text, so that a test can hold one in memory with something broken in it.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PACKAGES = ("kernels", "simulator", "scenarios")
BINARY = (".png", ".gz", ".svg")


@dataclass(frozen=True)
class Import:
    """Module `importer` imports `imported`. `when`: "load", "call" (inside a function) or "types" (for annotations)."""

    importer: str
    imported: str
    when: str


@functools.cache
def parse(text: str) -> ast.Module:
    return ast.parse(text)


@functools.cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a file."""
    return tuple(ast.walk(tree))


@dataclass(frozen=True)
class Repository:
    """`files`: text by path from the root, "/" between folders; binary files have no text."""

    files: Mapping[str, str]
    _cache: dict[str, object] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, root: Path = ROOT) -> Repository:
        """What git keeps or would keep; every file below `root` where there is no git."""
        try:
            listed = subprocess.run(
                ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                cwd=root,
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split("\0")
        except (OSError, subprocess.CalledProcessError):
            listed = [p.relative_to(root).as_posix() for p in root.rglob("*") if "__pycache__" not in p.parts]
        paths = [p for p in sorted(set(listed)) if (root / p).is_file()]
        return cls({p: "" if p.endswith(BINARY) else (root / p).read_text(encoding="utf-8") for p in paths})

    def changed(self, changes: Mapping[str, str | None]) -> Repository:
        """The same with some files added or replaced; None takes a file away."""
        files = {**self.files, **{path: text for path, text in changes.items() if text is not None}}
        return Repository({path: text for path, text in files.items() if changes.get(path, "") is not None})

    @property
    def python(self) -> Iterator[tuple[str, ast.Module]]:
        """(path, parsed) of every Python file."""
        for path, text in self.files.items():
            if path.endswith(".py"):
                yield path, parse(text)

    @property
    def modules(self) -> dict[str, str]:
        """Path by dotted name of every module of the three packages."""
        made = {}
        for path in self.files:
            parts = PurePosixPath(path).with_suffix("").parts
            if path.endswith(".py") and parts[0] in PACKAGES:
                made[".".join(("stalerow", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
        return made

    def imports(self) -> list[Import]:
        """Every import of one of the project's modules by another."""
        if "imports" not in self._cache:
            modules = self.modules
            self._cache["imports"] = [
                found
                for name, path in modules.items()
                for found in _imports(name, parse(self.files[path]), modules)
                if found.imported != name
            ]
        made = self._cache["imports"]
        assert isinstance(made, list)
        return made


def _imports(name: str, tree: ast.Module, modules: Mapping[str, str]) -> Iterator[Import]:
    for node, when in _import_statements(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [target if target in modules else node.module for target in whole]
        else:
            continue
        yield from (Import(name, target, when) for target in targets if target in modules)


@functools.cache
def _import_statements(tree: ast.Module) -> tuple[tuple[ast.AST, str], ...]:
    return tuple(s for s in _statements(tree, "load") if isinstance(s[0], (ast.Import, ast.ImportFrom)))


def _statements(node: ast.AST, when: str) -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(node):
        inner = when
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inner = "call"
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            inner = "types"
        yield child, inner
        yield from _statements(child, inner)


def circles(edges: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Groups of names that reach each other (strongly connected components of two and more; Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges.get(name, ()):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(frozenset(group))

    for name in edges:
        if name not in index:
            visit(name)
    return found
