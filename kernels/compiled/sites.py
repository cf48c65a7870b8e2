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
    """Address of the programs' numbers, x fastest, in the order in which they run; 0 for ascending numbers. Of the form
    whose programs are interleaved: address of the words of `Signal`."""


FAILURE_WORDS = 5


class Signal(IntEnum):
    """Words between a kernel whose programs are interleaved and whoever drives it."""

    WHY = 0
    """The `Stop` at which the last warp stopped."""
    PASSED = 1
    """How many stops the last `advance` went past."""
    WARPS = 2
    """Warps of a program."""
    LANES = 3
    """Consecutive lanes of a block that are one warp's, before the next warp's."""
    TAG = 4
    """What stands in the log beside every access until it is changed: which warp, and after how many barriers."""
    LOG = 5
    """Address of the log's next entry."""
    LOG_END = 6


TAG_BARRIERS = 20
"""Low bits of a tag: how many barriers the thread has come to. Its number is above them."""


class Entry(IntEnum):
    """Words of an entry of the log."""

    TAG = 0
    SITE = 1
    ADDRESS = 2
    VALUE = 3
    """The bytes read or written, as a number."""
    BEFORE = 4
    """The bytes that were there before."""


ENTRY_WORDS = len(Entry)


class Stop(IntEnum):
    """Why a warp does not go on."""

    ACCESS = 0
    """It is about to access memory."""
    BARRIER = 1
    """A `tl.debug_barrier`."""
    EXCHANGE = 2
    """An operation for which the warps of the program exchange lanes, which is a barrier too."""
    DONE = 3
    FAILED = 4


class Site(msgspec.Struct, frozen=True, array_like=True):
    """One operation of a kernel that can fail: what it does, its source line, and how many bytes a lane touches."""

    what: str
    file: str
    line: int
    size: int
