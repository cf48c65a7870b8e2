"""Bindings: what is captured of a cache, and when."""

import numpy as np
import pytest

from stalerow.kernels.base.binding import Cache, EagerBinder, LazyBinder, bind, bind_cache
from stalerow.kernels.base.device import NumpyBackend, as_int64
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import BlockTables, Pool

CONV, TEMPORAL = StateSpec("conv", 5, 2), StateSpec("temporal", 19)
BACKEND = NumpyBackend()


def layout(conv_layout="SD") -> Layout:
    groups = (GroupSpec("attention", 4), GroupSpec("recurrent", 8, (CONV, TEMPORAL)))
    return Layout(groups, 2, 6, 2, conv_layout=conv_layout, page_padding=7, base_offset=3)


def cache(cache_id=0, conv_layout="SD") -> Cache:
    shape = layout(conv_layout)
    return Cache(shape, Pool(shape, BACKEND), BlockTables(shape, 3, 8, BACKEND), cache_id)


@pytest.mark.parametrize(
    ("conv_layout", "inner", "count", "stride"),
    [("SD", [5, 19] * 2, [0] * 4, [0] * 4), ("DS", [1, 19] * 2, [5, 0] * 2, [10, 0] * 2)],
)
def test_metadata_of_each_state(conv_layout, inner, count, stride):
    c = cache(conv_layout=conv_layout)
    b = bind_cache(c, True, BACKEND)
    first = c.pool.address + 3
    page = c.layout.page_bytes
    assert b.state_base_addrs.tolist() == [first, first + 50, first + 6 * page, first + 6 * page + 50]
    assert b.state_block_strides.tolist() == [page] * 4
    assert b.state_elem_sizes.tolist() == [2, 1] * 2
    assert b.state_conv_widths.tolist() == [5, 0] * 2
    assert b.state_group_indices.tolist() == [0] * 4
    assert b.state_inner_sizes.tolist() == inner
    assert b.state_dim_row_count.tolist() == count
    assert b.state_dim_row_stride.tolist() == stride
    assert b.table_row_stride == 8
    dtypes = [b.state_base_addrs.dtype, b.state_inner_sizes.dtype, b.copy_table_ptrs.dtype]
    assert dtypes == [np.int64] * 3


def test_copies_read_slot_tables_or_gathered_ones_and_indices_always_gathered_ones():
    c = cache()
    for slot_tables, tables in ((True, c.tables.persistent), (False, c.tables.gathered)):
        b = bind_cache(c, slot_tables, BACKEND)
        assert b.copy_tables[0] is tables[1]
        assert b.index_tables[0] is c.tables.gathered[1]
        assert b.copy_table_ptrs.tolist() == [BACKEND.address(tables[1])]


def test_an_eager_binding_is_always_the_current_caches():
    binder = EagerBinder(BACKEND, True)
    profiling, real = cache(0), cache(1)
    assert binder.get(profiling).pool is profiling.pool
    assert binder.get(real).pool is real.pool
    assert binder.get(real) is binder.get(real)


def test_a_lazy_binding_stays_with_whoever_came_first():
    """A profiling cache bound first outlives its tables (the lifetime issue of #57807)."""
    binder = LazyBinder(BACKEND, False)
    profiling, real = cache(0), cache(1)
    assert binder.get(profiling).pool is profiling.pool
    assert binder.get(real).pool is profiling.pool
    assert binder.get(real).cache_id == 0


def test_addresses_keep_their_upper_bit():
    assert as_int64((1 << 63) + 5) == 5 - (1 << 63)
    assert as_int64((1 << 63) - 1) == (1 << 63) - 1
    with pytest.raises(ValueError, match="expected an unsigned 64-bit value"):
        as_int64(1 << 64)

    class High(NumpyBackend):
        def address(self, array):
            return (1 << 63) + 64 * (1 + id(array) % 7)

    c = cache()
    c.pool.address = (1 << 64) - 4096
    b = bind(c.layout, c.pool, [c.tables.persistent[1]], [c.tables.gathered[1]], High())
    assert b.state_base_addrs.view(np.uint64)[0] == (1 << 64) - 4096 + 3
    assert (b.copy_table_ptrs.view(np.uint64) >= 1 << 63).all()


def test_a_binding_needs_one_table_per_recurrent_group_and_one_stride():
    c = cache()
    with pytest.raises(ValueError, match="got 2 copy and 1 index tables; expected 1"):
        bind(c.layout, c.pool, c.tables.persistent, [c.tables.gathered[1]], BACKEND)
    with pytest.raises(ValueError, match=r"row strides \[4, 8\]; expected one"):
        bind(c.layout, c.pool, [c.tables.persistent[1]], [c.tables.gathered[1][:, :4]], BACKEND)
