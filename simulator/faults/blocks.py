"""Faults in who may write which block when: zeroing, stream order, staging buffers, padded and dummy rows."""

from __future__ import annotations

from collections.abc import Sequence

from stalerow.simulator.engine.step import Step
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.rank.device import DeviceQueue
from stalerow.simulator.rank.operations import CopyBlocks, Dummy, Operation, Zero
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.worker import Worker
from stalerow.simulator.schedule.values import Schedule

DUMMY_BYTE = 0xD6


class _ZeroesOnce(RankPolicy):
    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self._known: set[int] = set()

    def blocks_to_zero(self, step: Step) -> Sequence[int]:
        fresh = [block for block in super().blocks_to_zero(step) if block not in self._known]
        self._known.update(fresh)
        return fresh


class UnzeroedBlock(Fault):
    """A recycled block is used before anything wrote it: what its last owner left is read as the new owner's.

    Blocks are zeroed the first time only, as if memory were as clean as at the start. Attention reads whole pages, and
    bytes of a recurrent state are NaNs to it. Needs a block that is handed out twice.
    """

    name = id = "unzeroed-block"
    summary = "attention blocks are not zeroed when they are handed out again"
    reports = ("vllm#56524", "vllm#35219")
    expected = ("use after free", "uninitialised read")
    launches = ("forward",)
    says = "^attention block .* is not zero"
    rank = _ZeroesOnce


class _UnorderedFill(RankPolicy):
    def enqueue(self, queue: DeviceQueue, operation: Operation) -> None:
        if isinstance(operation, Zero | CopyBlocks):
            queue.overtake(operation)
        else:
            super().enqueue(queue, operation)


class EarlyFree(Fault):
    """Blocks go back to the pool while a queued step still writes them, and the new owner's fill does not wait for it.

    Freeing at once is safe only as long as whatever fills the blocks for their new owner is ordered behind the old
    owner's work. A load from another node, or a fill on a stream of its own, is not. Needs a request that ends or is
    preempted with work queued, on a rank whose device lags, and its blocks handed out again in that window.
    """

    name = id = "early-free"
    summary = "freed blocks are filled for their new owner while a queued step still writes them"
    reports = ("vllm#45357", "vllm#45096", "vllm-ascend#14055")
    expected = ("use after free",)
    launches = ("zero", "copy_blocks")
    says = "which leaves in this step"
    rank = _UnorderedFill


class _OneBuffer(RankPolicy):
    def staging_depth(self, steps_in_flight: int) -> int:
        return 1


class StagingDepth(Fault):
    """One staging buffer for all steps in flight: the host overwrites what a queued kernel has not read yet.

    A pool must hold a buffer for every step that may be in flight. Needs a device that lags its host by a step.
    """

    name = id = "staging-depth"
    summary = "the staging pool is shallower than the steps in flight"
    reports = ("vllm#47644", "vllm#53057", "tensorrt-llm#15546")
    expected = (
        "stale slot",
        "rank divergence",
        "cross-request copy",
        "wrong position",
        "use after free",
        "uninitialised read",
        "out of bounds",
        "torn copy",
        "null block write",
    )
    says = "staging buffers .* after the host overwrote them"
    rank = _OneBuffer


class _DirtyPadding(RankPolicy):
    zero_padding = False


class DirtyRows(Fault):
    """Padded rows of a decode graph keep the block ids of a larger batch before them (vLLM 0.30; 0.33 zeroes them).

    The graph runs over all its rows, so their states are written to blocks of somebody else. Needs a batch that
    shrinks and is padded up to a captured size.
    """

    name = id = "dirty-rows"
    summary = "padded rows keep the block ids of a larger batch"
    reports = ("vllm 0.30 against 0.33",)
    expected = ("cross-request copy", "use after free", "wrong position")
    launches = ("forward",)
    rank = _DirtyPadding

    def needs(self, schedule: Schedule) -> bool:
        return bool(schedule.limits.graph_sizes) and schedule.pipeline.runner == "v2"


class _WritingDummy(RankPolicy):
    def idle_step(self, rank: Worker, step: Step) -> None:
        super().idle_step(rank, step)

        def run() -> None:
            tables = [rank.tables.gathered[g] for g in rank.layout.recurrent_groups]
            blocks = sorted({int(rank.backend.to_host(table)[0, 0]) for table in tables} - {0})
            if blocks:
                rank.ops.fill_blocks(rank.pool, rank.device(blocks, "int32"), len(blocks), DUMMY_BYTE)

        rank.push(Dummy(step=step.number, run=run))


class DummyRun(Fault):
    """An idle rank's dummy run writes state through the row that the previous step's gather left behind.

    A rank of a data-parallel group with nothing to do runs a one-token batch to stay in step with the others; its
    state goes to the first block of whoever sat in row 0 last. Needs an idle step while those blocks are in use or
    cached.
    """

    name = id = "dummy-run"
    summary = "a dummy run writes state through the previous step's block-table rows"
    reports = ("vllm#37728", "vllm#49757")
    expected = ("use after free", "wrong position")
    launches = ("dummy",)
    rank = _WritingDummy

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.runner == "v2"
