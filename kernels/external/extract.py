"""Out of an engine's source file: the kernels, what they call, the constants they use, and nothing else.

`extract` reads a `SourceFile` as a syntax tree and returns the text of a module that holds the wanted
``@triton.jit`` functions and everything that they reach by name. Every kept line stays on its line, so that a
compile error or a traceback points into the engine's own file; all other lines are blank. Of the imports only
those of ``triton``, ``torch`` and the standard ``math`` survive, so executing the module runs nothing of the
engine.
"""

import ast
import builtins
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import ExtractionError
from .source import SourceFile

# Engines import Triton through a module of their own that also works without it; the names mean the same.
_RE_EXPORTED = {"triton": "import triton", "tl": "import triton.language as tl"}
_ALLOWED_ROOTS = ("triton", "torch", "math")

Imported = Callable[[ast.ImportFrom], SourceFile | None]


@dataclass(frozen=True)
class Extract:
    """`text` is the module's source; `kept` the names defined in it, in file order, all from `source`.

    `helpers` are modules of the same kind that it imports from by their `module`, a name made of their content.
    """

    text: str
    kept: tuple[str, ...]
    source: SourceFile
    helpers: tuple["Extract", ...] = ()

    @property
    def module(self) -> str:
        return f"stalerow_external_{hashlib.sha256(self.text.encode()).hexdigest()[:20]}"

    @property
    def all_helpers(self) -> tuple["Extract", ...]:
        """The helpers, and what they import from in turn."""
        return (*self.helpers, *(deeper for helper in self.helpers for deeper in helper.all_helpers))

    @property
    def names(self) -> tuple[str, ...]:
        """Everything taken, the helpers' part included."""
        return (*self.kept, *(name for helper in self.helpers for name in helper.names))


def jit_functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The module-level functions decorated with ``triton.jit`` (bare or called), by name."""
    return {
        node.name: node
        for node in _module_statements(tree.body)
        if isinstance(node, ast.FunctionDef) and any(_is_jit(decorator) for decorator in node.decorator_list)
    }


def extract(source: SourceFile, roots: Iterable[str], imported: Imported = lambda _: None) -> Extract:
    """The module of the functions named in `roots`, all of which must be in the file, and what they reach.

    `imported` gives the engine's file behind an import; what is reached there becomes a helper module. Raises
    `ExtractionError` when something reached is in a file that is not at hand, or defined nowhere.
    """
    wanted: dict[Path, tuple[SourceFile, dict[tuple[str, str], ast.stmt]]] = {}
    bindings = _bindings(source.tree)
    kept: dict[str, ast.stmt] = {}
    imports: dict[ast.stmt, list[str]] = {}
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            imports[node] = [ast.unparse(node)]
    todo = [(root, root) for root in roots]
    while todo:
        name, wanted_by = todo.pop()
        if name in kept or (name not in bindings and hasattr(builtins, name)):
            continue
        statement = bindings.get(name)
        if statement is None:
            raise ExtractionError(
                f"{source.path}: `{name}`, used by `{wanted_by}`, is defined nowhere in the file, nor imported by name"
            )
        if isinstance(statement, ast.Import | ast.ImportFrom):
            line = _import_line(statement, name)
            if line is None:
                file = imported(statement) if isinstance(statement, ast.ImportFrom) else None
                if file is None:
                    raise ExtractionError(
                        f"{source.path}:{statement.lineno}: `{name}`, used by `{wanted_by}`, comes from the engine "
                        f"(`{source.segment(statement)}`), never imported, and its file is not at hand; give the "
                        "whole checkout, or move it into the file"
                    )
                alias = next(a for a in statement.names if (a.asname or a.name) == name)
                wanted.setdefault(file.path, (file, {}))[1][alias.name, name] = statement
                imports.setdefault(statement, [])
                continue
            imports.setdefault(statement, [])
            if line not in imports[statement]:
                imports[statement].append(line)
            continue
        if not isinstance(statement, ast.FunctionDef | ast.Assign | ast.AnnAssign):
            raise ExtractionError(
                f"{source.path}:{statement.lineno}: `{name}`, used by `{wanted_by}`, is neither a function "
                "nor a constant; stalerow takes only those"
            )
        kept[name] = statement
        todo += [(needed, name) for needed in sorted(_free_names(statement))]
    helpers = []
    for file, names in wanted.values():
        helper = extract(file, [original for original, _ in names], imported)
        helpers.append(helper)
        for (original, name), statement in names.items():
            imports[statement].append(f"from {helper.module} import {original} as {name}")
    ordered = tuple(sorted(kept, key=lambda name: kept[name].lineno))
    return Extract(_blank_all_but(source, kept.values(), imports), ordered, source, tuple(helpers))


def _module_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run at import, also those under a module-level ``if``, ``try`` or ``with``."""
    for node in body:
        yield node
        for branch in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _module_statements(getattr(node, branch, []))


def _bindings(tree: ast.Module) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in _module_statements(tree.body):
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [(alias.asname or alias.name).split(".")[0] for alias in node.names]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            names = [node.target.id]
        for name in names:
            found[name] = node
    return found


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target) in ("triton.jit", "jit")


def _import_line(statement: ast.Import | ast.ImportFrom, name: str) -> str | None:
    """The import that binds `name` without touching the engine, or None where there is none."""
    if name in _RE_EXPORTED and isinstance(statement, ast.ImportFrom):
        return _RE_EXPORTED[name]
    for alias in statement.names:
        if (alias.asname or alias.name).split(".")[0] != name:
            continue
        bound = ast.unparse(alias)
        if isinstance(statement, ast.Import):
            return f"import {bound}" if alias.name.split(".")[0] in _ALLOWED_ROOTS else None
        if statement.level == 0 and (statement.module or "").split(".")[0] in _ALLOWED_ROOTS:
            return f"from {statement.module} import {bound}"
    return None


def _free_names(statement: ast.FunctionDef | ast.Assign | ast.AnnAssign) -> set[str]:
    """Names that `statement` takes from the module, at definition or when it runs.

    Return and parameter annotations count, since Triton evaluates them (``tl.constexpr``).
    """
    loads = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if not isinstance(statement, ast.FunctionDef):
        return loads
    arguments = statement.args
    own = {arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    own |= {arg.arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None}
    for part in statement.body:
        own |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {n.arg for n in ast.walk(part) if isinstance(n, ast.arg)}
    return loads - own


def _blank_all_but(source: SourceFile, kept: Iterable[ast.stmt], imports: dict[ast.stmt, list[str]]) -> str:
    lines = source.lines
    out = [""] * len(lines)
    for statement in kept:
        first = statement.lineno
        if isinstance(statement, ast.FunctionDef):
            first = min([first, *(decorator.lineno for decorator in statement.decorator_list)])
        last = statement.end_lineno or statement.lineno
        indent = statement.col_offset
        for number in range(first - 1, last):
            line = lines[number]
            # A definition under a module-level `if` moves to the margin; lines inside strings stay as they
            # are.
            out[number] = line[indent:] if line[:indent].isspace() else line
    for statement, replacement in imports.items():
        out[statement.lineno - 1] = "; ".join(replacement)
    return "\n".join(out).rstrip() + "\n"
