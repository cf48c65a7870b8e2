"""The part of Triton's IR that a translation needs, as plain values: types, operations, blocks, functions.

Values are numbered by the identity that MLIR gives them; an operation refers to its operands by number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TENSOR = re.compile(r"tensor<((?:\d+x)+)([^,]*?)(?:, .*)?>$")
_POINTER = re.compile(r"!tt\.ptr<([^,<>]*)(?:, \d+)?>$")

FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
"""The words of `arith.cmpf` for 0 to 15."""


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar or a block of scalars: `shape` is () for a scalar, `element` an MLIR scalar type such as "i32" or "ptr".

    `pointee` is the element type behind a pointer, "" for anything else.
    """

    shape: tuple[int, ...]
    element: str
    pointee: str = ""

    @property
    def scalar(self) -> Type:
        return Type((), self.element, self.pointee)


def parse_type(text: str) -> Type | None:
    """The `Type` that MLIR prints as `text`, or None for one that has no place in a translation (a descriptor, ...)."""
    shape: tuple[int, ...] = ()
    if found := _TENSOR.match(text):
        shape = tuple(int(size) for size in found[1].split("x")[:-1])
        text = found[2]
    if found := _POINTER.match(text):
        return Type(shape, "ptr", found[1])
    return Type(shape, text) if re.fullmatch(r"\w+", text) else None


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a kernel's source; `file` is "" where Triton made the operation up."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "unknown line"


@dataclass(slots=True)
class Op:
    """One operation. `attributes` holds integers, strings and constants by the names in Triton's dialects."""

    name: str
    operands: list[int]
    results: list[tuple[int, Type | None]]
    attributes: dict[str, int | float | str | bool] = field(default_factory=dict)
    regions: list[list[Block]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    """Successors of a branch: positions of blocks in its region."""
    location: Location = Location()


@dataclass(slots=True)
class Block:
    """Operations in order, and the values that whoever enters the block hands over."""

    arguments: list[tuple[int, Type | None]]
    ops: list[Op] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """A kernel or a function that it calls; the first block's arguments are its parameters."""

    name: str
    blocks: list[Block]


@dataclass(slots=True)
class Module:
    """A kernel, the first function, and what it calls, by name."""

    functions: dict[str, Function]
    entry: str
