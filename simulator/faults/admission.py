"""Faults at admission: what a slot is seeded with when a request moves in."""

from __future__ import annotations

from stalerow.simulator.engine.step import NewRequest
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.schedule import Schedule


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
    expected = ("out of bounds", "wrong position", "uninitialised read", "use after free", "cross-request copy")
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
    rank = _KeepsAccepted

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0
