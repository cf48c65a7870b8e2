"""Rules about what is defined and nobody uses, or nothing but tests."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

import known
from repository import PACKAGES, Repository, nodes
from rules import parse_of, rule

WORD = re.compile(r"[A-Za-z_]\w*")


@rule
def no_dead_definitions(repository: Repository) -> Iterator[str]:
    """What the packages define is used by name somewhere: in code, in tests, or in a string that is looked up."""
    used: set[str] = set()
    for path, text in repository.files.items():
        if path.endswith(".py"):
            used |= _uses(parse_of(repository, path))
        elif path.endswith((".toml", ".js", ".html", ".yml", ".yaml")) or path == ".ci/run":
            used.update(WORD.findall(text))
    for path, tree in repository.python:
        if path.split("/")[0] not in PACKAGES or path in known.CALLED_FROM_OUTSIDE:
            continue
        for name, line in _definitions(tree):
            if name not in used and name not in known.OVERRIDES and not name.startswith("__"):
                yield f"{path}:{line} {name} is used nowhere"
    yield from (f"known.CALLED_FROM_OUTSIDE: no {p}" for p in known.CALLED_FROM_OUTSIDE if p not in repository.files)


@rule
def nothing_is_for_tests_alone(repository: Repository) -> Iterator[str]:
    """What the packages define is used by themselves, or named in a page, but for what is listed with a reason."""
    used: set[str] = set()
    for path, text in repository.files.items():
        if path.startswith("tests/"):
            continue
        if path.endswith(".py"):
            used |= _uses(parse_of(repository, path))
        elif path.endswith((".toml", ".js", ".html", ".md", ".yml", ".yaml")) or path == ".ci/run":
            used.update(WORD.findall(text))
    alone = set()
    for path, tree in repository.python:
        if path.split("/")[0] not in PACKAGES or path in known.CALLED_FROM_OUTSIDE:
            continue
        for name, line in _definitions(tree):
            if name not in used and name not in known.OVERRIDES and not name.startswith("__"):
                alone.add(f"{path}:{name}")
                if f"{path}:{name}" not in known.FOR_TESTS:
                    yield f"{path}:{line} {name} is used by tests alone"
    yield from (f"known.FOR_TESTS lists {name}, which is not" for name in sorted(set(known.FOR_TESTS) - alone))


@functools.cache
def _definitions(tree: ast.Module) -> tuple[tuple[str, int], ...]:
    """(name, line) of what a module and its classes define."""
    return tuple(_defined(tree))


def _is_enum(node: ast.AST) -> bool:
    """Whether the members are an enumeration's: their positions count even where nobody names them."""
    return any("Enum" in ast.unparse(base) for base in getattr(node, "bases", ()))


def _defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bases = {ast.unparse(base) for base in getattr(node, "bases", ())}
            if not bases & set(known.DISCOVERED):
                yield node.name, node.lineno
        if isinstance(node, (ast.Module, ast.ClassDef)) and not _is_enum(node):
            for statement in node.body:
                targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
                for target in targets:
                    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(target, ast.Name):
                        yield target.id, statement.lineno


@functools.cache
def _uses(tree: ast.Module) -> set[str]:
    docstrings = {
        id(node.body[0].value)
        for node in nodes(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    used: set[str] = set()
    for node in nodes(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                used.add(name)
            case ast.alias(name=name):
                used.add(name.rpartition(".")[2])
            case ast.MatchClass(kwd_attrs=names):
                used.update(names)
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                used.update(WORD.findall(text))
    return used
