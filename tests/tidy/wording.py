"""Rules about what is written: references that lead nowhere, and words that are not the project's own."""

from __future__ import annotations

import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import PurePosixPath

import known
from repository import Repository
from rules import rule

FILE = re.compile(
    r"(?<![\w/.:*{}$-])(\.?(?:[\w.-]+/)*[\w-][\w.-]*\.(?:py|md|toml|yml|yaml|css|js|html))\b(?![\w(/*])",
)
FOLDER = re.compile(r"`((?:kernels|simulator|scenarios|tests)/[\w/.-]*)`")
MODULE = re.compile(r"(?<![/\w-])stalerow(?:\.[A-Za-z_]\w*)+\b(?!/\d)")

FORBIDDEN = {
    "a path of one machine": r"(?<![\w.~])/(?:root|home|Users|workspace|mnt|work)/\w",
    "a package registry's host": r"\b(?:pypi|pythonhosted|jfrog|artifactory|nexus|devpi)\b[\w.]*\.(?:org|io|com|net)\b",
    "an issue by its number alone": r"\b(?:issue|ticket|task)s? (?:no\.? ?)?#?\d+\b",
    "who wrote it, or when": r"\b(?:this|last|previous|earlier|next|my|our) (?:session|conversation|sprint)\b",
    "a note to come back": r"\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b",
}
"""What no text says, and the pattern that finds it."""


@rule
def references_lead_somewhere(repository: Repository) -> Iterator[str]:
    """A file or module that a page, a docstring or a comment names exists."""
    ends = _ends(repository)
    modules = repository.modules
    for path, text in _texts(repository):
        for name in _named(FILE, text):
            if re.sub(r"^(?:\.\.?/)+", "", name) not in ends and PurePosixPath(name).name not in known.NOT_OURS:
                yield f"{path} names {name}, which is not there"
        for name in _named(FOLDER, text):
            if not any(kept.startswith(f"{name.rstrip('/')}/") or kept == name for kept in repository.files):
                yield f"{path} names {name}, which is not there"
        for name in _named(MODULE, text):
            if not _is_module(name, modules, repository):
                yield f"{path} names {name}, which is not there"


@rule
def examples_are_still_named(repository: Repository) -> Iterator[str]:
    """`known.NOT_OURS` lists nothing that no text mentions."""
    everything = "\n".join(text for _, text in _texts(repository))
    yield from (f"known.NOT_OURS lists {name}, which nobody names" for name in known.NOT_OURS if name not in everything)


@rule
def words_are_our_own(repository: Repository) -> Iterator[str]:
    """No text speaks of a machine, of a registry, of numbers that only its authors know, or of work to come."""
    for path, text in repository.files.items():
        if path not in known.MAY_SAY:
            yield from (f"{path}:{line} says {said!r}: {what}" for line, said, what in _forbidden(text))


@functools.cache
def _forbidden(text: str) -> tuple[tuple[int, str, str], ...]:
    """(line, words, what they are) for everything that the text should not say."""
    return tuple(
        (text.count("\n", 0, found.start()) + 1, found[0], what)
        for what, pattern in FORBIDDEN.items()
        for found in re.finditer(pattern, text)
    )


def _texts(repository: Repository) -> Iterator[tuple[str, str]]:
    """(path, what is said in it): whole pages, and of Python the comments and the docstrings."""
    for path, text in repository.files.items():
        if path.startswith("tests/data/"):
            continue
        if path.endswith((".md", ".toml", ".yml", ".yaml")):
            yield path, re.sub(r"`[^`]+`, new:", "", text)  # what an example makes is not there
        elif path.endswith(".py"):
            yield path, _said(text)


@functools.cache
def _said(text: str) -> str:
    return "\n".join(
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
        or (token.type == tokenize.STRING and token.string.lstrip("rRfF").startswith('"""'))
    )


@functools.cache
def _named(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(sorted(set(pattern.findall(text))))


def _ends(repository: Repository) -> set[str]:
    """Every way to name a file that is kept: its path, and what is left of it from any folder on."""
    ends = set()
    for path in repository.files:
        parts = PurePosixPath(path).parts
        ends.update("/".join(parts[start:]) for start in range(len(parts)))
    return ends


def _is_module(name: str, modules: dict[str, str], repository: Repository) -> bool:
    """Whether `name` is a module or something that a module defines or imports."""
    parts = name.split(".")
    if any(m.startswith(name + ".") for m in modules) or name in modules:
        return True
    for end in range(len(parts) - 1, 0, -1):
        found = modules.get(".".join(parts[:end]))
        if found is not None:
            return re.search(rf"\b{re.escape(parts[end])}\b", repository.files[found]) is not None
    return False
