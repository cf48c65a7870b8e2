"""Faults at admission: what a slot is seeded with when a request moves in."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from stalerow.simulator.engine.step import NewRequest
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.schedule.values import Schedule

COPIES_GONE_WRONG = (
    "out of bounds",
    "wrong position",
    "uninitialised read",
    "use after free",
    "cross-request copy",
    "torn copy",
    "null block write",
)
"""What copying from some other column than the right one can look like."""


class _SchedulerUnits(RankPolicy):
    def seed_column(self, new: NewRequest, block_size: int) -> int:
        return super().seed_column(new, min(g.block_size for g in self.schedule.layout.groups))


class SeedUnits(Fault):
    """The running column is seeded with the engine's block size instead of mamba's own.

    The engine's is the smallest of all groups: 100096 tokens gave column 781 (128 tokens a block) and not 45 (2176),
    134400 gave 8399 (16 a block) in a row of 123 columns. In range another block's state is moved silently; out of
    range it is an illegal access. Needs an admission with a prefix hit and groups of different block sizes.
    """

    name = id = "seed-units"
    summary = "the running column is seeded in the engine's block size, not mamba's"
    reports = ("vllm#53142", "vllm#53798", "vllm#55507", "vllm#55600")
    expected = COPIES_GONE_WRONG
    launches = ("precopy",)
    rank = _SchedulerUnits

    def needs(self, schedule: Schedule) -> bool:
        return min(g.block_size for g in schedule.layout.groups) < schedule.layout.recurrent_block_size


class _KeepsAccepted(RankPolicy):
    def seed_accepted(self, new: NewRequest) -> int | None:
        return None


class StaleAccept(Fault):
    """`num_accepted` of the slot's previous owner survives admission.

    A first local step that runs as a decode then reads the state several drafts too far. Needs a slot that is reused
    after more than one token was accepted in it.
    """

    name = id = "stale-accept"
    summary = "num_accepted of a slot's previous owner survives admission"
    reports = ("vllm#48132",)
    expected = ("stale slot",)
    launches = ("forward",)
    says = "num_accepted"
    rank = _KeepsAccepted

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0


class _KeepsColumn(RankPolicy):
    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self._columns: dict[str, int] = {}

    def leaving(self, requests: Collection[str], column_of: Callable[[str], int]) -> None:
        super().leaving(requests, column_of)
        self._columns.update({request: column_of(request) for request in requests})

    def seed_column(self, new: NewRequest, block_size: int) -> int:
        kept = self._columns.get(new.request) if new.resumed else None
        return super().seed_column(new, block_size) if kept is None else kept


class ResumedColumn(Fault):
    """A request that was preempted and comes back keeps the running column it had.

    Its new table is shorter or holds other blocks there. Needs a preemption in mid-decode.
    """

    name = id = "resumed-column"
    summary = "a resumed request keeps the running column from before its preemption"
    reports = ("vllm#35157",)
    expected = COPIES_GONE_WRONG
    launches = ("precopy",)
    rank = _KeepsColumn


class _FirstColumn(RankPolicy):
    def seed_column(self, new: NewRequest, block_size: int) -> int:
        return max(super().seed_column(new, block_size), 0)


class NullState(Fault):
    """A fresh request's state is looked up in column 0, which holds the null block wherever a chunk skips it.

    Block 0 is shared by everybody and is never a state; kernels that take it for one read whatever the last such
    mistake left there. Needs a first chunk longer than a block. Public reports saw it as the single gathered entry of
    a row being 0 (align mode, prefix caching).
    """

    name = id = "null-state"
    summary = "a column that is null is read as if it held a state"
    reports = ("vllm#33937", "vllm#53084", "vllm#39064")
    expected = ("uninitialised read",)
    launches = ("precopy",)
    says = r"block 0 \(nobody \(the null block\)\)"
    rank = _FirstColumn


class _PlainFirstToken(RankPolicy):
    def runs_as_decode(self, num_computed: np.ndarray, num_drafts: np.ndarray) -> np.ndarray:
        return num_computed > 0


class PaddedFirstToken(Fault):
    """A one-token prompt that the scheduler padded with placeholder drafts runs as a plain prefill row.

    Prefill keeps only the state after its last position, so the placeholders are absorbed for good. Releases 0.32 and
    0.33 guard prompt tails that continue a computed prefix (vllm#55178), but not a prompt of one token. Needs such a
    prompt to join a batch that consists of decodes.
    """

    name = id = "padded-first-token"
    summary = "placeholder drafts of a padded one-token prompt are absorbed into its state (0.32, 0.33)"
    reports = ("vllm#55178",)
    expected = ("wrong position", "torn copy")
    launches = ("forward",)
    rank = _PlainFirstToken

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0 and any(r.prompt_len == 1 for r in schedule.requests)
