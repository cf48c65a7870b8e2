"""The rule about code that is written twice: ten lines and more that two places share, to the letter or in shape.

Lines of a shape are alike but for names, numbers and strings. Blank lines, comments, docstrings, imports and lines of
brackets alone do not count.
"""

from __future__ import annotations

import ast
import functools
import keyword
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import known
from repository import Repository, nodes, parse
from rules import rule

SHARED = 10
"""Lines from which on a run counts."""

COMMON = 8
"""Places in which a run of a shape may stand before it is how Python is written here, not what is said."""

MUCH = 7
"""Lines of a run of one shape that say more than a name or a value."""

WORD = re.compile(r"\w")
TOKEN = re.compile(r"""\w*(?:"[^"]*"|'[^']*')|\w+""")

Place = tuple[str, int]
"""A file, and the index of a line among those of its lines that count."""


class Line(NamedTuple):
    number: int
    text: str
    shape: str


class Pair(NamedTuple):
    """Lines `first` to `last` of `path` stand again in `other`, from line `again` on."""

    path: str
    first: int
    last: int
    other: str
    again: int


@rule
def nothing_is_written_twice(repository: Repository) -> Iterator[str]:
    """No ten lines of code stand in two places, but for the pairs of definitions that are listed with a reason."""
    files = {path: _lines(text) for path, text in repository.files.items() if path.endswith(".py")}
    listed = {frozenset(pair) for pair in known.WRITTEN_TWICE}
    for pair in _pairs(files):
        one, two = (
            f"{path}:{_definition(parse(repository.files[path]), line)}"
            for path, line in ((pair.path, pair.first), (pair.other, pair.again))
        )
        if not {frozenset((one, two)), frozenset((pair.path, pair.other))} & listed:
            yield (
                f"{pair.path}:{pair.first}-{pair.last} stands again in {pair.other} from line {pair.again} on: "
                f"{one} and {two}"
            )
    for one, two in known.WRITTEN_TWICE:
        if not set(_runs(repository, one)) & set(_runs(repository, two, twice=one == two)):
            yield f"known.WRITTEN_TWICE lists {one} and {two}, which share no {SHARED} lines"


def _runs(repository: Repository, place: str, twice: bool = False) -> Iterator[tuple[str, ...]]:
    """The shapes of all runs within a file, or within a definition of it; if `twice`, of those that stand there again.

    place: a path, or path:definition.
    """
    path, _, name = place.partition(":")
    text = repository.files.get(path, "")
    tree = parse(text)
    shapes = [line.shape for line in _lines(text) if not name or _within(name, _definition(tree, line.number))]
    met: set[tuple[str, ...]] = set()
    for i in range(len(shapes) - SHARED + 1):
        run = tuple(shapes[i : i + SHARED])
        if not twice or run in met:
            yield run
        met.add(run)


def _within(outer: str, name: str) -> bool:
    return name == outer or name.startswith(f"{outer}.")


def _says_much(shape: str) -> bool:
    return sum(token != "text" for token in TOKEN.findall(shape)) >= 3


def _pairs(files: dict[str, tuple[Line, ...]]) -> Iterator[Pair]:
    """The longest runs that two places share, each once."""
    seen: set[tuple[Place, Place]] = set()
    for to_the_letter in (True, False):
        places: dict[tuple[str, ...], list[Place]] = defaultdict(list)
        for path, lines in files.items():
            texts = [line.text if to_the_letter else line.shape for line in lines]
            for i in range(len(texts) - SHARED + 1):
                run = tuple(texts[i : i + SHARED])
                if to_the_letter or sum(map(_says_much, run)) >= MUCH:
                    places[run].append((path, i))
        shared = {
            (one, two)
            for found in places.values()
            if len(found) > 1 and (to_the_letter or len(found) <= COMMON)
            for n, one in enumerate(found)
            for two in found[n + 1 :]
            if one[0] != two[0] or two[1] - one[1] >= SHARED
        }
        for one, two in sorted(shared):
            before = (one[0], one[1] - 1), (two[0], two[1] - 1)
            if before in shared or (one, two) in seen:
                continue
            length = 0
            while ((one[0], one[1] + length), (two[0], two[1] + length)) in shared:
                seen.add(((one[0], one[1] + length), (two[0], two[1] + length)))
                length += 1
            mine, other = files[one[0]], files[two[0]]
            last = mine[one[1] + length + SHARED - 2].number
            yield Pair(one[0], mine[one[1]].number, last, two[0], other[two[1]].number)


@functools.cache
def _lines(text: str) -> tuple[Line, ...]:
    """The lines of a file that count."""
    passed = _passed_over(parse(text))
    return tuple(
        Line(number, stripped, TOKEN.sub(_shape, stripped))
        for number, line in enumerate(text.splitlines(), 1)
        if number not in passed and (stripped := line.strip()) and stripped[0] != "#" and WORD.search(stripped)
    )


def _shape(token: re.Match[str]) -> str:
    found = token[0]
    if found[0] in "\"'":
        return "text"
    return found if keyword.iskeyword(found) else "0" if found[0].isdigit() else "name"


def _passed_over(tree: ast.Module) -> set[int]:
    """Numbers of the lines of imports and docstrings."""
    passed: set[int] = set()
    for node in nodes(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                passed.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return passed


def _definition(tree: ast.Module, line: int) -> str:
    """The innermost function or class in which a line stands; the name that it belongs to at the top of a module."""
    name, body = "", tree.body
    while True:
        inside = next((n for n in body if n.lineno <= line <= (n.end_lineno or n.lineno)), None)
        match inside:
            case ast.FunctionDef() | ast.ClassDef():
                name = f"{name}.{inside.name}".lstrip(".")
                body = inside.body
            case ast.Assign(targets=[ast.Name(id=target)]) if not name:
                return target
            case _:
                return name
