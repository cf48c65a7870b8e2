"""Which accesses of a launch race, from the log of a run whose programs were interleaved.

Two threads race over a byte if one of them writes it, nothing orders the two accesses (a barrier orders warps of one
program, nothing orders programs), not both are atomic, and the result depends on their order: a write that leaves the
byte as it was, and two writes of the same value, do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np

from stalerow.kernels.compiled.sites import TAG_BARRIERS, Entry, Site

Place = Callable[[int, int], tuple[str, "int | None"]]
"""Of an address and a size: where that is, in words, and the block of the pool there, None outside it."""


Verb = Literal["load", "store", "atomic"]


class Lag(NamedTuple):
    """A thread that goes to the end of the line before its access number `access`, counted from 0."""

    program: int
    warp: int
    access: int


class Touch(NamedTuple):
    """One access of one warp of a program: `verb` of `size` bytes at line `line` of the
    kernel's source. `value` is what it read or wrote, little-endian."""

    program: tuple[int, int, int]
    warp: int
    verb: Verb
    file: str
    line: int
    address: int
    size: int
    value: int


class Race(NamedTuple):
    """Two accesses of one launch that race; `first` came first in this run. `place` and `block` say over what."""

    kernel: str
    first: Touch
    second: Touch
    place: str
    block: int | None


class Log(NamedTuple):
    """What one launch touched: `entries` is uint64 [accesses, ENTRY_WORDS], in the order in which it happened.

    `lags` are those that made a difference; `complete` is False where the log was full before the launch ended.
    """

    kernel: str
    grid: tuple[int, int, int]
    warps: int
    sites: Sequence[Site]
    entries: np.ndarray
    complete: bool
    lags: Sequence[Lag]
    place: Place

    def races(self) -> list[Race]:
        """The races in the order in which they showed: of every pair of source lines one over each page of the pool,
        and one between warps of one program beside one between programs."""
        told: dict[tuple[object, ...], Race] = {}
        for first, second in _racing(self.entries, self.sites, self.warps):
            touches = self._touch(first), self._touch(second)
            place, block = self.place(max(touch.address for touch in touches), 1)
            sites = int(self.entries[first, Entry.SITE]), int(self.entries[second, Entry.SITE])
            key = (sites, block, touches[0].program == touches[1].program)
            told.setdefault(key, Race(self.kernel, *touches, place, block))
        return list(told.values())

    def _touch(self, entry: int) -> Touch:
        tag, number, address, value, _ = (int(word) for word in self.entries[entry])
        site = self.sites[number]
        program, warp = divmod(tag >> TAG_BARRIERS, self.warps)
        rest, x = divmod(program, self.grid[0])
        at = (x, rest % self.grid[1], rest // self.grid[1])
        return Touch(at, warp, cast(Verb, site.what), site.file, site.line, address, site.size, value)


def _racing(entries: np.ndarray, sites: Sequence[Site], warps: int) -> Iterator[tuple[int, int]]:
    """Pairs of entries that race, (earlier, later), by the later one."""
    if not len(entries):
        return
    number = entries[:, Entry.SITE].astype(np.int64)
    size = np.array([site.size for site in sites], dtype=np.int64)[number]
    writes = np.array([site.what != "load" for site in sites])[number]
    thread = entries[:, Entry.TAG] >> np.uint64(TAG_BARRIERS)
    entry = np.repeat(np.arange(len(entries)), size)
    byte = np.arange(len(entry)) - np.repeat(np.cumsum(size) - size, size)
    address = entries[entry, Entry.ADDRESS] + byte.astype(np.uint64)
    order = np.argsort(address, kind="stable")
    entry, byte, address = entry[order], byte[order], address[order]
    starts = np.flatnonzero(np.r_[True, address[1:] != address[:-1]])
    # Only bytes that somebody writes and two threads touch are looked at one by one.
    of = thread[entry]
    written = np.logical_or.reduceat(writes[entry], starts)
    shared = np.maximum.reduceat(of, starts) != np.minimum.reduceat(of, starts)
    ends = np.r_[starts[1:], len(entry)]
    found: set[tuple[int, int]] = set()
    for group in np.flatnonzero(written & shared):
        here = slice(starts[group], ends[group])
        touches = [_Byte(entries[e], int(e), int(b), sites, warps) for e, b in zip(entry[here], byte[here])]
        found.update(_pairs(touches))
    yield from sorted(found, key=lambda pair: (pair[1], pair[0]))


class _Byte:
    """One entry's part in one byte."""

    def __init__(self, entry: np.ndarray, number: int, byte: int, sites: Sequence[Site], warps: int) -> None:
        tag, site, _, value, before = (int(word) for word in entry)
        self.number, self.tag, self.site = number, tag, site
        self.program = (tag >> TAG_BARRIERS) // warps
        self.verb = sites[site].what
        self.value, self.before = value >> 8 * byte & 0xFF, before >> 8 * byte & 0xFF

    @property
    def changes(self) -> bool:
        return self.verb == "atomic" or (self.verb == "store" and self.value != self.before)

    def races(self, later: _Byte) -> bool:
        if self.tag >> TAG_BARRIERS == later.tag >> TAG_BARRIERS:
            return False
        if self.program == later.program and self.tag % (1 << TAG_BARRIERS) != later.tag % (1 << TAG_BARRIERS):
            return False
        verbs = {self.verb, later.verb}
        if verbs == {"store"}:
            return self.value != later.value
        return verbs not in ({"load"}, {"atomic"}) and (self.changes or later.changes)


def _pairs(touches: Sequence[_Byte]) -> Iterator[tuple[int, int]]:
    """The races over one byte; of equal accesses by one thread the first stands for all."""
    kept: list[_Byte] = []
    seen: set[tuple[int, int, int]] = set()
    for later in touches:
        yield from ((first.number, later.number) for first in kept if first.races(later))
        key = (later.tag, later.site, later.value)
        if key not in seen:
            seen.add(key)
            kept.append(later)
