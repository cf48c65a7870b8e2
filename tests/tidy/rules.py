"""The rules of the house: each takes a `Repository` and returns a line for everything that breaks it."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

import known
from repository import PACKAGES, Import, Repository, circles, nodes, parse

Rule = Callable[[Repository], Iterable[str]]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    RULES[function.__name__] = function
    return function


@rule
def arrows_go_one_way(repository: Repository) -> Iterator[str]:
    """scenarios -> simulator -> kernels, whenever something is imported, and in strings that name modules too."""
    rank = {name: i for i, name in enumerate(PACKAGES)}
    for found in repository.imports():
        importer, imported = found.importer.split(".")[1], found.imported.split(".")[1]
        if rank[imported] > rank[importer]:
            yield f"{found.importer} imports {found.imported}"
    for path, tree in repository.python:
        own = rank.get(path.split("/")[0], len(rank))
        for line, name in _module_names(tree):
            if rank[name.split(".")[1]] > own:
                yield f"{path}:{line} names {name}"


@rule
def lower_rooms_know_nothing_above(repository: Repository) -> Iterator[str]:
    """What is judged, and what it is made of, does not know who judges it."""
    for found in repository.imports():
        importer, imported = (name.removeprefix("stalerow.simulator.").split(".")[0] for name in _pair(found))
        if importer in known.BELOW and imported in known.ABOVE and f"{importer} {imported}" not in known.KNOWS_ANYWAY:
            yield f"{found.importer} imports {found.imported}"


@rule
def kernels_know_no_requests(repository: Repository) -> Iterator[str]:
    """Kernels are told rows, slots and tokens: nothing in `kernels/` is called a request or a schedule."""
    for path, tree in repository.python:
        if path.startswith("kernels/") and path not in known.KNOW_REQUESTS:
            for name in sorted(
                {n for node in nodes(tree) for n in _names(node) if re.search(r"requests?$|schedules?$", n.lower())}
            ):
                yield f"{path} has {name!r}"


@rule
def no_circles(repository: Repository) -> Iterator[str]:
    """No modules import each other: when they are loaded, inside functions, by a name in a string, for annotations."""
    at_load, ever = defaultdict(set), defaultdict(set)
    for found in repository.imports():
        ever[found.importer].add(found.imported)
        if found.when == "load":
            at_load[found.importer].add(found.imported)
    modules = {path: name for name, path in repository.modules.items()}
    for path, tree in repository.python:
        if path in modules:
            ever[modules[path]].update(name for _, name in _module_names(tree) if name in repository.modules)
    for group in circles(at_load):
        yield f"import each other when loaded: {', '.join(sorted(group))}"
    for group in circles(ever):
        yield f"import each other: {', '.join(sorted(group))}"


@rule
def folders_import_one_way(repository: Repository) -> Iterator[str]:
    """Folders of `simulator/` and of `kernels/` do not import each other, nor in a longer circle."""
    edges: dict[str, set[str]] = defaultdict(set)
    for found in repository.imports():
        folders = ["/".join(name.split(".")[1:3]) for name in _pair(found)]
        if folders[0] != folders[1] and all("/" in folder for folder in folders):
            edges[folders[0]].add(folders[1])
    yield from (f"folders import each other: {', '.join(sorted(group))}" for group in circles(edges))


@rule
def packages_are_the_folders(repository: Repository) -> Iterator[str]:
    """`pyproject.toml` lists every folder with Python in it, and ships every other file that is read at run time."""
    tools = tomllib.loads(repository.files["pyproject.toml"])["tool"]["setuptools"]
    listed, folders, extra = set(tools["packages"]), set(), defaultdict(list)
    for path in repository.files:
        if path.startswith(tuple(f"{name}/" for name in PACKAGES)):
            folder = PurePosixPath(path).parent
            if path.endswith(".py"):
                folders.add(_dotted(folder))
            else:
                extra[folder].append(path)
    yield from (f"pyproject.toml does not list {name}" for name in sorted(folders - listed))
    if tools["package-dir"] != {f"stalerow.{name}": name for name in PACKAGES}:
        yield f"pyproject.toml: package-dir is not {', '.join(PACKAGES)}"
    yield from (f"pyproject.toml lists {name}, which has no Python" for name in sorted(listed - folders))
    yield from (f"{name}/py.typed is missing" for name in PACKAGES if f"{name}/py.typed" not in repository.files)
    yield from (
        f"{_dotted(folder)} has no __init__.py"
        for folder in _folders(repository)
        if _dotted(folder) in folders and f"{folder}/__init__.py" not in repository.files
    )
    patterns = {(owner, pattern): 0 for owner, found in tools["package-data"].items() for pattern in found}
    for path in [p for found in extra.values() for p in found]:
        if path.startswith(known.NOT_SHIPPED):
            continue
        owners = [key for key in patterns if _ships(key, path)]
        if not owners:
            yield f"{path} is not in package-data"
        for key in owners:
            patterns[key] += 1
    yield from (f"package-data {owner}: {pattern} matches nothing" for (owner, pattern), n in patterns.items() if not n)


@rule
def every_operation_is_judged(repository: Repository) -> Iterator[str]:
    """Each struct of `rank/operations.py` is in its union, and the oracle's match has a case for each and no other."""
    operations = parse_of(repository, "simulator/rank/operations.py")
    kinds = {
        node.name
        for node in ast.walk(operations)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "kind" for s in node.body)
    }
    (union,) = [
        node.value
        for node in operations.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "Operation" and node.value is not None
    ]
    members = {node.id for node in ast.walk(union) if isinstance(node, ast.Name)}
    yield from (f"{name} is no member of Operation" for name in sorted(kinds - members))
    watch = parse_of(repository, "simulator/oracle/watch.py")
    cases = {
        ast.unparse(pattern.cls)
        for node in ast.walk(watch)
        if isinstance(node, ast.FunctionDef) and node.name == "after"
        for pattern in ast.walk(node)
        if isinstance(pattern, ast.MatchClass)
    }
    yield from (f"the oracle does not judge {name}" for name in sorted(kinds - cases))
    yield from (f"the oracle judges {name}, which is no operation" for name in sorted(cases - kinds))


@rule
def every_file_says_its_idea(repository: Repository) -> Iterator[str]:
    """A module docstring in every Python file that has any code."""
    for path, tree in repository.python:
        if tree.body and not ast.get_docstring(tree):
            yield f"{path} has no module docstring"


@rule
def files_are_short(repository: Repository) -> Iterator[str]:
    """At most `MOST_LINES` lines of Python."""
    for path, text in repository.files.items():
        lines = text.count("\n")
        if path.endswith(".py") and lines > known.MOST_LINES:
            yield f"{path} has {lines} lines: at most {known.MOST_LINES}; split it by idea"


@rule
def simulator_has_a_face(repository: Repository) -> Iterator[str]:
    """No loose Python in `simulator/` but for what all folders share."""
    loose = {p.removeprefix("simulator/") for p in repository.files if re.fullmatch(r"simulator/[^/]+\.py", p)}
    yield from (f"simulator/{name} is loose: it belongs in a folder" for name in sorted(loose - set(known.FACE)))


@rule
def tests_mirror_the_code(repository: Repository) -> Iterator[str]:
    """Every module of the listed folders has its own test file, at the same place below `tests/`."""
    for path in map(PurePosixPath, repository.files):
        if str(path).startswith(known.MIRRORED) and path.suffix == ".py" and path.name != "__init__.py":
            tests, let_pass = "tests" / path.with_name(f"test_{path.name}"), str(path) in known.WITHOUT_OWN_TESTS
            if str(tests) not in repository.files and not let_pass:
                yield f"{path} has no {tests}"
            if str(tests) in repository.files and let_pass:
                yield f"known.WITHOUT_OWN_TESTS lists {path}, which has {tests}"
    absent = set(known.WITHOUT_OWN_TESTS) - set(repository.files)
    yield from (f"known.WITHOUT_OWN_TESTS lists {path}, which is not there" for path in sorted(absent))


@functools.cache
def _module_names(tree: ast.Module) -> tuple[tuple[int, str], ...]:
    """(line, text) of every string that is the name of one of the project's modules, or of something in one."""
    return tuple(
        (node.lineno, node.value)
        for node in nodes(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"stalerow\.(?:kernels|simulator|scenarios)(?:[.:]\w+)*", node.value)
    )


def _pair(found: Import) -> tuple[str, str]:
    return found.importer, found.imported


def parse_of(repository: Repository, path: str) -> ast.Module:
    return parse(repository.files[path])


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a node binds or reads."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def _dotted(folder: PurePosixPath) -> str:
    return ".".join(("stalerow", *folder.parts))


def _folders(repository: Repository) -> set[PurePosixPath]:
    return {PurePosixPath(path).parent for path in repository.files}


def _ships(key: tuple[str, str], path: str) -> bool:
    owner, pattern = key
    folder = PurePosixPath(*owner.split(".")[1:])
    return (
        PurePosixPath(path).is_relative_to(folder)
        and PurePosixPath(path).relative_to(folder).match(pattern)
        and (len(PurePosixPath(path).relative_to(folder).parts) == len(PurePosixPath(pattern).parts))
    )
