"""Faults in what a copy kernel was told about the cache: which table, which row of it, which cache, which sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec
import numpy as np

from stalerow.kernels.align.kernels import AlignKernels, ReferenceAlign
from stalerow.kernels.base.binding import Binder, Binding, Cache, HostState, LazyBinder
from stalerow.kernels.base.memory import BlockTables, Pool
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults.base import Fault
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.worker import Worker
from stalerow.simulator.schedule.values import Schedule


class StaleRow(Fault):
    """The copy kernels look the block table up by batch row in the gathered tables (releases up to 0.30).

    A non-last rank postprocesses a batch P steps late, when the gathered buffer holds another batch. Needs P >= 2,
    drafts, two batches that alternate, and a boundary crossed by accepted drafts.
    """

    name = id = "stale-row"
    summary = "copy kernels read a re-gathered table by the row of an older batch"
    reports = ("vllm#55506", "vllm#55951", "vllm-backport#63", "vllm-backport#96")
    expected = ("cross-request copy", "use after free", "wrong position")
    launches = ("postprocess",)
    says = "^deferred postprocess.* and the gathered table held step"

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        if not kernels.align.reads_slot_tables:
            return kernels.align
        if isinstance(kernels.align, ReferenceAlign):
            return ReferenceAlign(row_is_slot=False)
        if kernels.name != "req-idx":
            raise UsageError(
                f"fault 'stale-row' cannot change the row lookup of {kernels.name}: use --kernels req-idx, or compare "
                "with a release that has it"
            )
        from stalerow.kernels.align.kernels_triton import TritonAlign

        return TritonAlign(False, kernels.backend)

    def needs(self, schedule: Schedule) -> bool:
        pipeline = schedule.pipeline
        return pipeline.pp > 1 and pipeline.drafts > 0 and pipeline.runner == "v2"


class _ProfilingBinder:
    """Bound by the profiling run: tables and states of its cache, but the aligned indices are looked up afresh."""

    def __init__(self, rank: Worker, layout_of: Callable[[Worker], Cache]) -> None:
        self._lazy = LazyBinder(rank.backend, rank.align.reads_slot_tables)
        self._own = LazyBinder(rank.backend, rank.align.reads_slot_tables)
        self._lazy.get(layout_of(rank))

    @property
    def bound_to(self) -> int | None:
        return self._lazy.bound_to

    def get(self, cache: Cache) -> Binding:
        own, bound = self._own.get(cache), self._lazy.get(cache)
        return dataclasses.replace(bound, index_tables=own.index_tables, index_table_ptrs=own.index_table_ptrs)


def _profiling_cache(rank: Worker) -> Cache:
    """What memory profiling builds and throws away: two blocks, and one recurrent group fewer where there are two."""
    layout = rank.layout
    recurrent = layout.recurrent_groups
    groups = [g for i, g in enumerate(layout.groups) if len(recurrent) == 1 or i != recurrent[-1]]
    small = msgspec.structs.replace(layout, groups=tuple(groups), num_blocks=2)
    tables = BlockTables(small, rank.max_reqs, rank.max_blocks, rank.backend)
    return Cache(small, Pool(small, rank.backend), tables, cache_id=-1)


class _BoundWhileProfiling(RankPolicy):
    def binder(self, rank: Worker) -> Binder:
        return _ProfilingBinder(rank, _profiling_cache)


class DeadBinding(Fault):
    """The copy context is bound by its first caller, the memory profiling run, and never again.

    That cache is gone afterwards, and it may have had another number of groups: a release that checks says "expected 3
    block tables, got 4", one that does not copies state in dead memory while live state stays where it was. Needs a
    copy.
    """

    name = id = "dead-binding"
    summary = "the copy context stays bound to the cache of the profiling run"
    reports = ("vllm#57807", "vllm#54044")
    expected = ("dead binding",)
    launches = ("precopy", "postprocess")
    rank = _BoundWhileProfiling


class _Resized:
    """A binder whose bindings claim other sizes for temporal states."""

    def __init__(self, inner: Binder, rank: Worker, size_of: Callable[[HostState, int], int]) -> None:
        self._inner, self._backend, self._size_of = inner, rank.backend, size_of
        self._changed: Binding | None = None

    @property
    def bound_to(self) -> int | None:
        return self._inner.bound_to

    def get(self, cache: Cache) -> Binding:
        binding = self._inner.get(cache)
        if self._changed is None or self._changed.cache_id != binding.cache_id:
            self._changed = self._change(binding)
        return self._changed

    def _change(self, binding: Binding) -> Binding:
        inner = np.array(self._backend.to_host(binding.state_inner_sizes))
        states = list(binding.host_states)
        for i, state in enumerate(states):
            if not state.conv_width:
                elements = self._size_of(state, binding.layout.page_bytes) // state.elem_size
                inner[i] = elements
                states[i] = state._replace(row_bytes=elements * state.elem_size)
        changed = dataclasses.replace(binding, state_inner_sizes=self._backend.from_host(inner))
        vars(changed)["host_states"] = tuple(states)
        return changed


def _whole_words(state: HostState, page_bytes: int) -> int:
    return state.row_bytes // 8 * 8


class _WordSized(RankPolicy):
    def binder(self, rank: Worker) -> Binder:
        return _Resized(super().binder(rank), rank, _whole_words)


class OddSize(Fault):
    """States are copied in 8-byte words, so that the last bytes of a state of odd size stay behind.

    Needs a temporal state whose size is no multiple of 8 bytes.
    """

    name = "odd-size"
    id = "address-width"
    summary = "states of odd size are copied in whole 8-byte words"
    reports = ("vllm#49436",)
    expected = ("torn copy",)
    launches = ("precopy", "postprocess")
    rank = _WordSized

    def needs(self, schedule: Schedule) -> bool:
        return any(not s.conv_width and s.data_bytes % 8 for s in schedule.layout.states)
