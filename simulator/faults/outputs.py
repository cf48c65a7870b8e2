"""Faults in what a rank does with a step's output: whose it is, how many tokens it accepted, and when it is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from stalerow.kernels.base.memory import SlotState
from stalerow.kernels.own.operators import Operators
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.faults.base import Fault, Wrapped
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.ring import RingEntry
from stalerow.simulator.schedule.values import Schedule


def _deferred(schedule: Schedule) -> bool:
    return schedule.pipeline.runner == "v2" and schedule.pipeline.pp > 1


class _AnyGeneration(RankPolicy):
    def excluded(self, entry: RingEntry, generation: np.ndarray) -> np.ndarray:
        return super().excluded(entry, entry_generations(entry, generation))


def entry_generations(entry: RingEntry, generation: np.ndarray) -> np.ndarray:
    """Generation counters under which no row of the entry looks freed."""
    pretended = generation.copy()
    pretended[entry.slots] = entry.generation
    return pretended


class NoGenerationCheck(Fault):
    """Deferred results are scattered into a slot that was freed since and belongs to another request by now.

    Non-last ranks keep a step's output for P steps; the counter that every free bumps is what tells a slot's old owner
    from its new one. Needs a request that ends and a slot that is reused within P steps.
    """

    name = id = "no-generation-check"
    summary = "deferred results are scattered into slots that were freed and reused since"
    reports = ("vllm#50514",)
    expected = ("stale slot",)
    launches = ("post_update",)
    says = "has taken"
    rank = _AnyGeneration

    def needs(self, schedule: Schedule) -> bool:
        return _deferred(schedule) and len(schedule.requests) > 1


class _KeepsRejected(RankPolicy):
    def rejected(self, num_rejected: np.ndarray, is_last: bool) -> np.ndarray:
        taken = super().rejected(num_rejected, is_last)
        return taken if is_last else np.zeros_like(taken)


class RankDivergence(Fault):
    """A non-last rank keeps its optimistic token count: rejected drafts are never taken back.

    From then on it computes other positions than the last rank. Needs drafts, a rejection and P >= 2.
    """

    name = id = "rank-divergence"
    summary = "a non-last rank does not take rejected drafts off its token count"
    reports = ("vllm#44697", "vllm#44698", "vllm#46994")
    expected = ("rank divergence",)
    launches = ("post_update",)
    rank = _KeepsRejected

    def needs(self, schedule: Schedule) -> bool:
        return _deferred(schedule) and schedule.pipeline.drafts > 0


class _RawCounts(Wrapped):
    """Operators that store accepted counts as they are, without the neutral 1 for rows that sampled nothing."""

    def __init__(self, inner: Operators, kernels: KernelSet) -> None:
        super().__init__(inner)
        self._backend = kernels.backend

    def scatter_accepted(self, slots: SlotState, idx_mapping: Any, num_sampled: Any, num_rows: int) -> None:
        self.inner.scatter_accepted(slots, idx_mapping, num_sampled, num_rows)
        host = self._backend.to_host
        ids, counts = host(idx_mapping)[:num_rows], host(num_sampled)[:num_rows]
        empty = ids[(counts == 0) & (ids >= 0)]
        if empty.size:
            accepted = np.array(host(slots.num_accepted))
            accepted[empty] = 0
            self._backend.write(slots.num_accepted, accepted)


class ZeroAccept(Fault):
    """A row that sampled nothing stores an accepted count of 0, and the next step computes column - 1 from it.

    Needs a prefill chunk that samples nothing; without drafts the count is wrong too, though no column follows from it.
    """

    name = id = "zero-accept"
    summary = "an accepted count of 0 is stored, which gives column -1"
    reports = ("vllm#50021", "vllm#48475")
    expected = ("stale slot", "out of bounds")
    launches = ("post_update", "forward", "precopy")
    says = r"num_accepted 0|-1\]"

    def wrap_ops(self, kernels: KernelSet, schedule: Schedule) -> Operators:
        wrapped: Any = _RawCounts(kernels.ops, kernels)
        return wrapped


class _AfterNextLaunch(RankPolicy):
    late_postprocess = True


class LateReader(Fault):
    """The boundary is judged after the next batch has been launched, from counts that this batch has advanced.

    An overlapped scheduler prepares batch n + 1 before it processes the results of batch n: the token count that says
    whether a boundary was crossed, and the running column, are one batch ahead by then, and a request that has ended
    is still among the rows. Needs asynchronous scheduling and a boundary crossed by accepted drafts.
    """

    name = id = "late-reader"
    summary = "boundary copies read counts that the next batch has already advanced"
    reports = ("sglang#29792", "sglang#29449", "sglang#31369")
    expected = ("wrong position", "torn copy", "use after free", "cross-request copy", "uninitialised read")
    launches = ("postprocess",)
    rank = _AfterNextLaunch

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.runner == "v2" and schedule.pipeline.async_scheduling
