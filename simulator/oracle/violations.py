"""What went wrong: a kind, one sentence and the provenance of the bytes; and the situations worth testing."""

from __future__ import annotations

from typing import Literal

import msgspec

from stalerow.simulator.oracle.kinds import Kind

ENGINE = -1
"""The rank of a violation that no rank has a part in: the engine's own."""


class Racer(msgspec.Struct, frozen=True):
    """One side of a race: which warp of which program (x, y, z), and its access: `size` bytes at "file:line"."""

    program: tuple[int, int, int]
    warp: int
    verb: Literal["load", "store", "atomic"]
    size: int
    at: str

    @property
    def does(self) -> str:
        verb = {"load": "loads", "store": "stores", "atomic": "updates"}[self.verb]
        return f"{verb} {self.size} byte{'s' * (self.size > 1)} at {self.at}"

    def __str__(self) -> str:
        return f"program {self.program} warp {self.warp} {self.does}"


class Race(msgspec.Struct, frozen=True):
    """Two accesses of one launch that nothing orders; `first` came first in this run. over: which bytes, in words, and
    `block` the page that they lie in, -1 outside the pool."""

    kernel: str
    first: Racer
    second: Racer
    over: str
    block: int = -1


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One violation. `launch` is the device operation; `during` the step whose host enqueued it, `step` the step whose
    batch it worked for. Blocks are page indices of the pool, -1 where unknown. `explanation` is one sentence. `race`
    are the two accesses that raced, where programs were interleaved and some did."""

    kind: Kind
    rank: int
    launch: str
    step: int
    during: int
    layer: int = -1
    group: int = -1
    source_block: int = -1
    target_block: int = -1
    source_owner: str = ""
    target_owner: str = ""
    request: str = ""
    bytes_of: str = ""
    deferred: bool = False
    explanation: str
    race: Race | msgspec.UnsetType = msgspec.UNSET

    @property
    def place(self) -> str:
        """Who is to blame, in words."""
        return "in the engine" if self.rank == ENGINE else f"on rank {self.rank}"

    def identity(self) -> tuple[object, ...]:
        """What must be the same for two runs to have failed in the same way."""
        return (self.kind, self.rank, self.launch, self.step, self.during, self.source_block, self.target_block)


class Marks(dict[str, int]):
    """How often a situation worth testing occurred; counted so that no run passes vacuously."""

    def add(self, name: str, count: int = 1) -> None:
        if count:
            self[name] = self.get(name, 0) + count


MARKS: tuple[str, ...] = (
    "deferred postprocess over a re-gathered table",
    "boundary crossed by accepted drafts",
    "state saved at a boundary",
    "running column moved",
    "drafts rejected",
    "all drafts accepted",
    "slot reused within P steps",
    "deferred output masked",
    "prefix hit",
    "preemption",
    "resumption",
    "abort with work in flight",
    "chunked prefill",
    "padded rows",
    "dirty rows zeroed",
    "same-block shift",
    "speculative block relocated",
    "block reused",
    "open window",
    "device lag",
    "overshooting decode",
    "empty step",
    "mixed batch",
    "stop token",
    "chunk cut by the threshold",
    "chunk of a fair share",
    "admission held by max_num_active_seqs",
    "equal prefix under another salt",
    "cache read skipped",
    "preemption out of order",
    "prefill held back",
    "prefix cache reset",
    "reset with requests running",
    "fewer drafts in a larger batch",
    "drafts without lookahead",
    "drafts skipped",
    "cached prefix admitted first",
    "one-token prompt padded",
)
