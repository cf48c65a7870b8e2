"""What can go wrong, in a fixed vocabulary, with one sentence and the provenance of the bytes."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal[
    "cross-request copy",
    "use after free",
    "stale slot",
    "wrong position",
    "torn copy",
    "uninitialised read",
    "null block write",
    "poisoned cache",
    "dead binding",
    "rank divergence",
    "output divergence",
    "out of bounds",
    "leak",
    "starvation",
    "preemption loop",
    "racing writes",
    "kernel raised",
    "broken rule",
    "engine raised",
]
KINDS: tuple[str, ...] = Kind.__args__  # type: ignore[attr-defined]

MEANINGS: dict[Kind, str] = {
    "cross-request copy": "State or KV of one request went to a block of another, or was read for it.",
    "use after free": "A block was read or written that nobody owns, or that its owner is still using.",
    "stale slot": "A slot holds numbers of a request that has left it, or an output was written to it.",
    "wrong position": "A request's own state is another one than that after exactly its tokens.",
    "torn copy": "A state is a mixture: a part of it was not copied, or from bytes that were already overwritten.",
    "uninitialised read": "A state was taken from the null block, or from one not written since it changed hands.",
    "null block write": "A state was written to block 0, which belongs to nobody and which every short row points to.",
    "poisoned cache": "The prefix cache offers a state, or a request started from one, that is not what it says.",
    "dead binding": "The kernels hold pointers into a cache that is gone.",
    "rank divergence": "A rank's own token counts differ from the request's.",
    "output divergence": "The last rank's output depends on a wrong read; the request run alone returns another.",
    "out of bounds": "A launch was told to touch memory outside its arrays.",
    "leak": "The engine keeps blocks that nothing will read again, or has lost sight of some.",
    "starvation": "Requests wait, nothing is in flight, and the engine can schedule none of them.",
    "preemption loop": "A request is preempted again and again while nobody is given a token.",
    "racing writes": "Two programs of one launch write different bytes to one place; nothing says which stays.",
    "kernel raised": "A kernel under test raised; the sentence names file and line.",
    "broken rule": "The engine broke a rule of its own: an assertion failed, or it prefills foreign tokens.",
    "engine raised": "The engine's own scheduler or worker raised; the sentence names file and line.",
}
"""What each kind means, in one sentence."""

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
)
