"""Faults of the scheduler: where chunks end, which columns a step gets, and when blocks are given up."""

from __future__ import annotations

from typing import ClassVar

from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.policies import ChunkPolicy, DraftPolicy, FreePolicy
from stalerow.simulator.engine.request import Request
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.schedule.values import Schedule


class _OtherGrid(ChunkPolicy):
    def block_size(self, config: EngineConfig) -> int:
        return min(group.block_size for group in config.groups)


class WrongGridSplit(Fault):
    """Prefill chunks end on the smallest group's grid instead of the recurrent one.

    With blocks of 816 and 1648 tokens the two grids first meet at 84048. A chunk that ends inside a recurrent block
    leaves no state at the boundary, and a later one is published under a boundary that it does not stand for. Needs
    groups of different block sizes and a prompt in more than one chunk.
    """

    name = id = "wrong-grid-split"
    summary = "prefill chunks are clipped on another group's block grid"
    reports = ("vllm#54076",)
    expected = ("poisoned cache",)
    launches = ("end of run", "forward")
    engine: ClassVar = {"chunks": _OtherGrid}

    def needs(self, schedule: Schedule) -> bool:
        return min(g.block_size for g in schedule.layout.groups) < schedule.layout.recurrent_block_size


class _LookaheadColumn(DraftPolicy):
    def recurrent_tokens(self, num_tokens: int, num_tokens_with_lookahead: int) -> int:
        return num_tokens_with_lookahead


class LookaheadPage(Fault):
    """The page that the drafter's lookahead needs displaces the running column when a chunk ends exactly on a page end.

    The list is laid out for more tokens than the step computes; the column that the worker writes is null. Needs
    drafts and a chunk that ends within K tokens of a block's end.
    """

    name = id = "lookahead-page"
    summary = "lookahead displaces the running column at a page end"
    reports = ("vllm#57605",)
    expected = ("uninitialised read", "use after free")
    launches = ("precopy", "forward")
    says = "block 0"
    engine: ClassVar = {"drafts": _LookaheadColumn}

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0


class _NoSpeculativeColumns(DraftPolicy):
    def speculative_blocks(self, config: EngineConfig) -> int:
        return max(super().speculative_blocks(config) - 1, 0)


class LookaheadMissing(Fault):
    """The page that the last draft needs is not there: its column holds whatever an earlier batch left in the row.

    The other half of the report: the state of a draft goes to a recycled block. Needs drafts.
    """

    name = "lookahead-missing"
    id = "lookahead-page"
    summary = "the page that the last draft's state needs is missing"
    reports = ("vllm#57605",)
    expected = ("cross-request copy", "use after free", "wrong position", "uninitialised read", "null block write")
    launches = ("forward",)
    engine: ClassVar = {"drafts": _NoSpeculativeColumns}

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0


class _Optimistic(FreePolicy):
    def settled_tokens(self, num_computed_tokens: int, request: Request) -> int:
        return num_computed_tokens


class OptimisticFree(Fault):
    """States are retired by the optimistic token count, which counts drafts in flight; a rejection then rolls back.

    The state that the request goes on from is in a block that has been given up. Needs a rejection right after a
    boundary.
    """

    name = id = "optimistic-free"
    summary = "blocks are retired by a token count that a rejection takes back"
    reports = ("vllm#47728",)
    expected = ("use after free",)
    launches = ("postprocess", "precopy", "forward")
    engine: ClassVar = {"frees": _Optimistic}

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0


class _NeverRetired(FreePolicy):
    def settled_tokens(self, num_computed_tokens: int, request: Request) -> int:
        return 0


class WildLeak(Fault):
    """States that a long prompt has gone past are never given up: one for every chunk, where a few are needed.

    The report counts 71 blocks held where 9 are needed. No byte is ever wrong; the pool runs dry, requests are
    preempted or wait. Needs a prompt of several chunks, or outputs over several blocks.
    """

    name = id = "wild-leak"
    summary = "states behind the running column are never given up"
    reports = ("vllm#55450",)
    expected = ("leak",)
    launches = ("schedule",)
    says = r"holds \d+ states"
    engine: ClassVar = {"frees": _NeverRetired}

    def needs(self, schedule: Schedule) -> bool:
        size = schedule.layout.recurrent_block_size
        return any(r.prompt_len + r.max_tokens > size for r in schedule.requests)
