"""What a copy kernel knows about the cache, captured once: table addresses and state-tensor metadata.

A `Binding` is made from the current `Cache` and handed to every align kernel. *Which* tables it captures, and
*when*, is the difference between releases: up to vLLM 0.30 the first caller's gathered tables, bound lazily;
from 0.32 on the persistent per-slot tables, bound when the KV cache is initialised (#54173). A binding keeps
its arrays alive, so a stale one reads and writes a dead cache instead of freed memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from stalerow.kernels.base.device import Array, Backend, as_int64
from stalerow.kernels.base.layout import Layout, StateEntry
from stalerow.kernels.base.memory import BlockTables, Pool, Region, addresses, reaches


@dataclass(frozen=True, eq=False)
class Cache:
    """The KV cache a rank uses from some moment on; `cache_id` tells it from earlier ones."""

    layout: Layout
    pool: Pool
    tables: BlockTables
    cache_id: int = 0


class HostState(NamedTuple):
    """The metadata of one state tensor as Python integers, for the reference kernels."""

    entry: StateEntry
    base: int
    """Byte offset in the pool of block 0's data."""
    group_index: int
    conv_width: int
    row_bytes: int
    elem_size: int
    dim: int


@dataclass(frozen=True, eq=False)
class Binding:
    """Addresses and metadata, one element per state tensor (`Layout.states` order) unless said otherwise.

    The names are those of the releases' kernel parameters, so that an engine's own kernels can be driven too.
    """

    layout: Layout
    pool: Pool
    copy_tables: list[Array]
    """int32 [max_reqs, max_blocks] per recurrent group: what precopy and postprocess look up."""
    index_tables: list[Array]
    """The same, for the aligned state indices: always the gathered tables."""
    copy_table_ptrs: Array
    """int64 [num_recurrent_groups]: addresses of `copy_tables`, bit patterns of unsigned values."""
    index_table_ptrs: Array
    table_row_stride: int
    """Elements between table rows."""
    state_base_addrs: Array
    """int64: address of block 0's data."""
    state_block_strides: Array
    """int64: bytes between blocks (the page stride, larger than the data)."""
    state_elem_sizes: Array
    """int32: bytes per element."""
    state_inner_sizes: Array
    """int64, elements: temporal, the whole state; conv SD, one row; conv DS, 1."""
    state_conv_widths: Array
    """int32: rows of the conv window, 0 for a temporal state."""
    state_group_indices: Array
    """int32: index of the state's group in `copy_table_ptrs`."""
    state_dim_row_count: Array
    """int32: channels of a DS conv window, else 0."""
    state_dim_row_stride: Array
    """int64, bytes: between the channels of a DS conv window, else 0."""
    cache_id: int = 0
    max_row_bytes: int = field(default=0)
    """Bytes of the longest conv row; bounds the copy kernels' tiles."""

    @property
    def num_states(self) -> int:
        return len(self.layout.states)

    @cached_property
    def host_states(self) -> tuple[HostState, ...]:
        """The same metadata as Python integers, relative to the pool."""
        return tuple(
            HostState(
                entry=e,
                base=self.layout.page_start(e.layer, 0) + e.offset,
                group_index=e.group_index,
                conv_width=e.conv_width,
                row_bytes=e.spec.row_bytes,
                elem_size=e.spec.elem_size,
                dim=e.spec.dim,
            )
            for e in self.layout.states
        )


def bind(
    layout: Layout,
    pool: Pool,
    copy_tables: list[Array],
    index_tables: list[Array],
    backend: Backend,
    cache_id: int = 0,
) -> Binding:
    """Capture the addresses of a cache. The table lists hold the recurrent groups' tables only, in order.

    Raises ValueError if a list has the wrong length or the tables differ in row stride.
    """
    groups = len(layout.recurrent_groups)
    if len(copy_tables) != groups or len(index_tables) != groups:
        raise ValueError(
            f"got {len(copy_tables)} copy and {len(index_tables)} index tables; "
            f"expected {groups}, one per recurrent group"
        )
    strides = {int(table.shape[1]) for table in (*copy_tables, *index_tables)}
    if len(strides) > 1:
        raise ValueError(f"block tables have row strides {sorted(strides)}; expected one for all")

    states = layout.states
    channels_first = layout.conv_layout == "DS"

    def device(values: list[int], dtype: str) -> Array:
        return backend.from_host(np.array(values, dtype=dtype))

    def inner(entry: StateEntry) -> int:
        return 1 if entry.conv_width and channels_first else entry.spec.dim

    def channel(entry: StateEntry, value: int) -> int:
        return value if entry.conv_width and channels_first else 0

    base_addrs = device([as_int64(pool.address + layout.page_start(e.layer, 0) + e.offset) for e in states], "int64")
    reaches(base_addrs, [Region(pool.array, "pool", layout)])
    row_strides = [channel(e, e.conv_width * e.spec.elem_size) for e in states]
    return Binding(
        layout=layout,
        pool=pool,
        copy_tables=list(copy_tables),
        index_tables=list(index_tables),
        copy_table_ptrs=addresses(copy_tables, backend, "copied block_tables"),
        index_table_ptrs=addresses(index_tables, backend, "gathered block_tables"),
        table_row_stride=strides.pop() if strides else 0,
        state_base_addrs=base_addrs,
        state_block_strides=device([layout.page_bytes] * len(states), "int64"),
        state_elem_sizes=device([e.spec.elem_size for e in states], "int32"),
        state_inner_sizes=device([inner(e) for e in states], "int64"),
        state_conv_widths=device([e.conv_width for e in states], "int32"),
        state_group_indices=device([e.group_index for e in states], "int32"),
        state_dim_row_count=device([channel(e, e.spec.dim) for e in states], "int32"),
        state_dim_row_stride=device(row_strides, "int64"),
        cache_id=cache_id,
        max_row_bytes=max((e.spec.row_bytes for e in states if e.conv_width), default=1),
    )


class Binder(Protocol):
    """Decides which cache the align kernels are bound to."""

    def get(self, cache: Cache) -> Binding:
        """The binding to use now, while `cache` is the current cache."""

    @property
    def bound_to(self) -> int | None:
        """`cache_id` of the cache whose memory the copies touch, None before any is bound; asking binds nothing."""


class EagerBinder:
    """Binds each cache when it becomes current (vLLM 0.32 and later): the binding is always the cache's own."""

    def __init__(self, backend: Backend, reads_slot_tables: bool) -> None:
        self._backend = backend
        self._reads_slot_tables = reads_slot_tables
        self._binding: Binding | None = None

    @property
    def bound_to(self) -> int | None:
        return None if self._binding is None else self._binding.cache_id

    def get(self, cache: Cache) -> Binding:
        if self._binding is None or self._binding.cache_id != cache.cache_id:
            self._binding = bind_cache(cache, self._reads_slot_tables, self._backend)
        return self._binding


class LazyBinder:
    """Binds whatever cache is current at the first call, for good (vLLM 0.30 and earlier).

    A memory-profiling or graph-capture cache that comes first stays bound after it is gone.
    """

    def __init__(self, backend: Backend, reads_slot_tables: bool) -> None:
        self._backend = backend
        self._reads_slot_tables = reads_slot_tables
        self._binding: Binding | None = None

    @property
    def bound_to(self) -> int | None:
        return None if self._binding is None else self._binding.cache_id

    def get(self, cache: Cache) -> Binding:
        if self._binding is None:
            self._binding = bind_cache(cache, self._reads_slot_tables, self._backend)
        return self._binding


def bind_cache(cache: Cache, reads_slot_tables: bool, backend: Backend) -> Binding:
    """Bind a cache: copies look up the persistent tables if `reads_slot_tables`, else the gathered ones."""
    groups = cache.layout.recurrent_groups
    copy_source = cache.tables.persistent if reads_slot_tables else cache.tables.gathered
    return bind(
        cache.layout,
        cache.pool,
        [copy_source[g] for g in groups],
        [cache.tables.gathered[g] for g in groups],
        backend,
        cache.cache_id,
    )
