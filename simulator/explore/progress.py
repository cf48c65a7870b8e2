"""How far a search has come: what is done, what was found, and the file that it goes on from.

Workloads are done in leases that may end in any order, so what is done is kept as ranges of numbers. The file is
written beside and renamed, so that an interruption at any moment leaves one that can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from stalerow.simulator.errors import UsageError
from stalerow.simulator.explore.bounds import Bounds, complete
from stalerow.simulator.explore.orders import Counts, Reduction
from stalerow.simulator.explore.search import Failing, Lease, Searched, Signature, keep
from stalerow.simulator.faults.hooks import together
from stalerow.simulator.files import read_bounded, write_beside
from stalerow.simulator.run.outcome import FaultUse
from stalerow.simulator.subject.subject import Subject

FORMAT = 1
Kept = TypeVar("Kept", bound="Sums")


class Sums(msgspec.Struct, kw_only=True):
    """What a search has come to. `schedules` differ in workload or acceptance, `failed` of them showed a violation;
    `failing` holds the smallest of each kind. `skipped` lack what a fault needs and were not searched; `uses` is what
    became of the faults. `seconds` were spent in all."""

    subject: Subject
    reduction: Reduction = Reduction()
    schedules: int = 0
    failed: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    failing: list[Failing] = []
    skipped: int = 0
    uses: tuple[FaultUse, ...] = ()
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        """Schedules of which at least one order was run."""
        return self.schedules

    @property
    def violating(self) -> int:
        return self.failed

    @property
    def visits(self) -> Counts:
        """All that was run and cut."""
        return self.counts

    def sum(self, searched: Searched) -> None:
        """Add what a part of the search came to."""
        self.schedules += searched.schedules
        self.failed += searched.failed
        self.skipped += searched.skipped
        self.uses = together((*self.uses, *searched.uses))
        self.counts.add(searched.counts)
        smallest: dict[Signature, Failing] = {}
        for failing in (*self.failing, *searched.failing):
            keep(smallest, failing)
        self.failing = sorted(smallest.values(), key=lambda failing: (failing.size, failing.signature))


class Progress(Sums, kw_only=True):
    """`start` to `stop` - 1 are the workloads asked for, `done` those finished, as sorted disjoint (start, stop)."""

    progress_format: int = FORMAT
    bounds: Bounds
    start: int = 0
    stop: int
    done: list[tuple[int, int]] = []

    @property
    def about(self) -> str:
        """What is searched, in words."""
        return str(self.bounds)

    @property
    def workloads(self) -> int:
        """How many were asked for."""
        return self.stop - self.start

    @property
    def finished(self) -> int:
        """How many workloads are done."""
        return sum(stop - start for start, stop in self.done)

    @property
    def up_to(self) -> int:
        """All workloads from `start` to below this number are done."""
        return self.done[0][1] if self.done and self.done[0][0] == self.start else self.start

    @property
    def over(self) -> bool:
        return self.up_to >= self.stop

    @property
    def holds(self) -> Bounds | None:
        """The largest bound all of whose workloads are done; None before any is, or if one workload was asked for."""
        return None if self.start else complete(self.bounds, self.up_to)

    def left(self) -> list[tuple[int, int]]:
        """Ranges of workloads that are not done."""
        edges = [self.start, *(edge for span in self.done for edge in span), self.stop]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2]) if a < b]

    def add(self, lease: Lease, searched: Searched) -> None:
        """Take a finished lease. ValueError if any of it was done before."""
        for start, stop in self.done:
            if lease.start < stop and start < lease.stop:
                raise ValueError(f"{lease} were searched twice")
        self.done = _merged([*self.done, (lease.start, lease.stop)])
        self.sum(searched)

    def seconds_left(self) -> float | None:
        """At the pace so far; None before anything is done."""
        if not self.finished:
            return None
        return self.seconds / self.finished * (self.stop - self.start - self.finished)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, stop))
    return merged


def save(progress: Sums, path: Path) -> None:
    write_beside(path, msgspec.json.format(msgspec.json.encode(progress), indent=1) + b"\n")


def load(path: Path) -> Progress:
    """Raises `UsageError` for a file that is not a search's."""
    progress = read(path, Progress)
    if progress.progress_format != FORMAT:
        raise UsageError(f"{path}: progress_format is {progress.progress_format}, this release reads {FORMAT}")
    return progress


def read(path: Path, kind: type[Kept]) -> Kept:
    """The file of a search of this kind. Raises `UsageError` for anything else."""
    try:
        return msgspec.json.decode(read_bounded(path), type=kind)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): give the file of an earlier search") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"{path}: not the file of a search ({error}): start it again without --resume") from None
