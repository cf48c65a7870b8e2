"""Small edits of a release's own files, described by place: a function, what to look for in it, and what becomes of it.

A description holds names and numbers only, never a line of the release. Applying one to a folder of the release's files
makes a folder beside it in which everything but the edited file is a link.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

How = Literal["negate", "drop", "swap", "offset", "rename", "argument", "value"]


class NoSuchPlace(Exception):
    """The release's file does not have what an edit looks for."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of `function` (dotted) in `file` (under vllm/).

    how: negate the `nth` condition that mentions the name `of`; drop the `nth` statement that calls `of`; swap two
    positional arguments (`to` is "i,j") of the `nth` call of `of`; add `to` to what the `nth` assignment to `of`
    assigns ("return" for what is returned); rename the `nth` use of the name or attribute `of` to `to`; make argument
    "i" of the `nth` call of `of` another (`to` is "i=EXPRESSION"); make the value of the `nth` assignment to `of` the
    expression `to`.
    """

    file: str
    function: str
    how: How
    of: str
    to: str = ""
    nth: int = 0

    @property
    def name(self) -> str:
        to = f" {self.to}" if self.to else ""
        return f"{self.file.rpartition('/')[2]}:{self.function}: {self.how} {self.of}[{self.nth}]{to}"

    def applied(self, source: str) -> str:
        """The file's text with the edit. Raises `NoSuchPlace`."""
        found = [*self._places(_function(ast.parse(source), self.function))]
        if self.nth >= len(found):
            raise NoSuchPlace(f"{self.name}: found {len(found)} such places")
        edits = found[self.nth]
        data = source.encode()
        starts = [0]
        for line in data.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for node, text in sorted(edits, key=lambda e: (e[0].lineno, e[0].col_offset), reverse=True):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            data = data[:begin] + text.encode() + data[end:]
        made = data.decode()
        ast.parse(made)
        return made

    def _places(self, function: ast.AST) -> Iterator[list[tuple[ast.expr | ast.stmt, str]]]:
        for node in _ordered(function):
            match self.how:
                case "negate" if isinstance(node, ast.If | ast.IfExp | ast.While) and self.of in _names(node.test):
                    yield [(node.test, f"(not ({ast.unparse(node.test)}))")]
                case "drop" if isinstance(node, ast.Expr) and _called(node.value) == self.of:
                    yield [(node, "pass")]
                case "swap" if isinstance(node, ast.Call) and _called(node) == self.of:
                    i, j = (node.args[int(at)] for at in self.to.split(","))
                    yield [(i, ast.unparse(j)), (j, ast.unparse(i))]
                case "argument" if isinstance(node, ast.Call) and _called(node) == self.of:
                    at, _, text = self.to.partition("=")
                    yield [(node.args[int(at)], text)]
                case "offset" | "value" if self.of in _assigned(node):
                    value = node.value  # type: ignore[attr-defined]
                    text = self.to if self.how == "value" else f"({ast.unparse(value)}) + {self.to}"
                    yield [(value, text)]
                case "rename" if isinstance(node, ast.Name) and node.id == self.of:
                    yield [(node, self.to)]
                case "rename" if isinstance(node, ast.Attribute) and node.attr == self.of:
                    yield [(node, f"{ast.unparse(node.value)}.{self.to}")]
                case _:
                    pass


def _function(tree: ast.AST, dotted: str) -> ast.AST:
    for part in dotted.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        found = [n for n in ast.iter_child_nodes(tree) if isinstance(n, kinds) and n.name == part]
        if not found:
            raise NoSuchPlace(f"{dotted}: there is no {part}")
        tree = found[-1]
    return tree


def _ordered(function: ast.AST) -> list[ast.AST]:
    nodes = [n for n in ast.walk(function) if hasattr(n, "lineno")]
    return sorted(nodes, key=lambda n: (n.lineno, n.col_offset))  # type: ignore[attr-defined]


def _names(node: ast.AST) -> set[str]:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _called(node: ast.AST) -> str:
    """The last name of what is called; a launched kernel's, whatever its grid."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    return getattr(function, "attr", "") or getattr(function, "id", "")


def _assigned(node: ast.AST) -> set[str]:
    """Last names of what a statement assigns to; "return" for a return."""
    if isinstance(node, ast.Return) and node.value is not None:
        return {"return"}
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = node.targets
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        targets = [node.target]
    else:
        return set()
    bases = [t.value if isinstance(t, ast.Subscript) else t for t in targets]
    return {getattr(t, "attr", "") or getattr(t, "id", "") for t in bases}


def edited(vllm: Path, edit: Edit, folder: Path) -> Path:
    """`folder` for --worker: a vllm package of links to `vllm`'s, but for the one file. Raises `NoSuchPlace`."""
    made = edit.applied((vllm / edit.file).read_text())
    source, target = vllm, folder / "vllm"
    for part in Path(edit.file).parts:
        target.mkdir(parents=True, exist_ok=True)
        for entry in source.iterdir():
            if entry.name not in (part, "__pycache__"):
                (target / entry.name).symlink_to(entry)
        source, target = source / part, target / part
    target.write_text(made)
    return folder
