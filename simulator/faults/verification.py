"""Faults of verification: accepted states that are not committed, and outputs that reach other ranks damaged."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from stalerow.kernels.base.memory import SlotState
from stalerow.kernels.own.operators import Operators
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.faults.base import Fault, Wrapped
from stalerow.simulator.rank.device import DeviceQueue
from stalerow.simulator.rank.operations import Operation, Postprocess, Preprocess
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.schedule.values import Schedule


class _NeverCommits(Wrapped):
    """Operators that leave the accepted count of every row at 1: its state is the one after its first token."""

    def __init__(self, inner: Operators, kernels: KernelSet) -> None:
        super().__init__(inner)
        self._backend = kernels.backend

    def scatter_accepted(self, slots: SlotState, idx_mapping: Any, num_sampled: Any, num_rows: int) -> None:
        ones = np.minimum(np.array(self._backend.to_host(num_sampled)), 1)
        self.inner.scatter_accepted(slots, idx_mapping, self._backend.from_host(ones), num_rows)


class UncommittedAccept(Fault):
    """After n-gram verification the accepted drafts' states are not committed.

    Tokens are counted, states are not: the next step starts from the state after the first token of the last one.
    Needs an n-gram drafter and accepted drafts.
    """

    name = id = "uncommitted-accept"
    summary = "states of accepted n-gram drafts are not committed"
    reports = ("sglang#26351",)
    expected = ("wrong position", "stale slot", "torn copy")
    launches = ("post_update", "forward", "precopy", "postprocess")

    def wrap_ops(self, kernels: KernelSet, schedule: Schedule) -> Operators:
        wrapped: Any = _NeverCommits(kernels.ops, kernels) if schedule.pipeline.drafter == "ngram" else kernels.ops
        return wrapped

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0 and schedule.pipeline.drafter == "ngram"


class _ForgetsMixed(RankPolicy):
    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self._mixed: set[int] = set()

    def enqueue(self, queue: DeviceQueue, operation: Operation) -> None:
        if isinstance(operation, Preprocess) and len(set(operation.batch.is_spec.tolist())) > 1:
            self._mixed.add(operation.step)
        if isinstance(operation, Postprocess) and operation.batch_step in self._mixed:
            operation = msgspec.structs.replace(operation, run=lambda: None)
        super().enqueue(queue, operation)


class DroppedTracking(Fault):
    """Decodes merged into a prefill batch lose the fields that say which states to checkpoint.

    The boundary state is never written, but the block is published as if it held it. Needs a batch of prefill and
    decode rows in which accepted drafts cross a boundary.
    """

    name = id = "dropped-tracking"
    summary = "boundary states of decodes are not saved where prefill shares the batch"
    reports = ("sglang#39342",)
    expected = ("stale slot", "wrong position", "uninitialised read", "poisoned cache", "torn copy")
    rank = _ForgetsMixed

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.runner == "v2" and schedule.pipeline.drafts > 0 and len(schedule.requests) > 1


class _NarrowBroadcast(RankPolicy):
    def received(self, tokens: np.ndarray, drafted: bool) -> np.ndarray:
        taken = np.zeros_like(tokens)
        sent = tokens if drafted else tokens[:, :1]
        taken.reshape(-1)[: sent.size] = sent.reshape(-1)
        return super().received(taken, drafted)


class BroadcastWidth(Fault):
    """The last rank broadcasts one column for a batch without drafts; the others receive K + 1.

    Their buffer takes the message one token after the other, so all rows but the first find a foreign token or none.
    Seen in 0.28.0. Needs P >= 2, drafts, and a batch of two rows or more that verifies none.
    """

    name = id = "broadcast-width"
    summary = "a batch without drafts is broadcast narrower than it is received"
    reports = ()
    expected = ("stale slot", "rank divergence", "wrong position")
    launches = ("post_update",)
    rank = _NarrowBroadcast

    def needs(self, schedule: Schedule) -> bool:
        pipeline = schedule.pipeline
        return pipeline.runner == "v2" and pipeline.pp > 1 and pipeline.drafts > 0 and len(schedule.requests) > 1
