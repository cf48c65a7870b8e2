"""What a compiled kernel and its caller agree on: words behind the kernel's parameters, and places that can fail."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Extra(IntEnum):
    """Words that follow the parameters."""

    X = 0
    """Programs along each dimension of the grid."""
    Y = 1
    Z = 2
    RANGES = 3
    """Address of pairs (first byte, one past the last) that may be touched."""
    NUM_RANGES = 4
    FAILURE = 5
    """Address of `FAILURE_WORDS` words that a failure is written to: site, program x, y, z, address."""
    ORDER = 6
    """Address of the programs' numbers, x fastest, in the order in which they run; 0 for ascending numbers."""


FAILURE_WORDS = 5


class Site(msgspec.Struct, frozen=True, array_like=True):
    """One operation of a kernel that can fail: what it does, its source line, and how many bytes a lane touches."""

    what: str
    file: str
    line: int
    size: int
