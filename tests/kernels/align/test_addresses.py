"""Caches whose offsets and addresses do not fit 32 bits."""

import numpy as np
import pytest
from kernel_machine import Machine, triton_set

from stalerow.kernels.base.binding import Cache, bind_cache
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import Pool
from stalerow.kernels.sets import kernel_set


@pytest.fixture(params=["reference", "triton"])
def kernels(request, device):
    return kernel_set("reference:req-idx") if request.param == "reference" else triton_set("req-idx", device, 2)


def reserved_pool(layout: Layout, kernels) -> Pool:
    """A pool of several GiB that costs only the pages that are touched."""
    pool = Pool.__new__(Pool)
    pool.layout = layout
    if kernels.backend.name == "triton-cuda":
        import torch

        pool.array = torch.zeros(layout.pool_bytes, dtype=torch.uint8, device="cuda")
    else:
        pool.array = np.zeros(layout.pool_bytes, dtype=np.uint8)  # lazily backed by zero pages
        if kernels.backend.name != "numpy":
            import torch

            pool.array = torch.from_numpy(pool.array)
    pool.address = kernels.backend.address(pool.array)
    return pool


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
def test_a_block_beyond_two_gib_is_found(kernels, conv_layout):
    states = (StateSpec("conv", 9), StateSpec("temporal", 27))
    groups = (GroupSpec("recurrent", 4, states),)
    padding = (1 << 30) + 1
    layout = Layout(groups, 1, 5, 1, conv_layout=conv_layout, page_padding=padding)
    assert 3 * layout.page_bytes > 1 << 31
    m = Machine(Layout(groups, 1, 2, 1), kernels, max_blocks=4, max_len=4)
    pool = reserved_pool(layout, kernels)
    binding = bind_cache(Cache(layout, pool, m.tables), True, m.backend)
    table = np.array([[1, 3, 4, 2]] * 4, np.int32)
    m.load({"persistent[0]": table, "src_col": np.ones(4, np.int32), "state_idx": np.full(4, 2, np.int32)})
    size = sum(e.data_bytes for e in layout.states)
    data = np.arange(1, size + 1, dtype=np.uint8)
    start, target = layout.page_start(0, 3), layout.page_start(0, 4)
    m.backend.write(pool.array[start : start + size], data)
    m.align.precopy(m.slots, binding, m.idx([0]), 1)
    np.testing.assert_array_equal(m.host(pool.array[target : target + size]), data)
    assert not m.host(pool.array[start + size : start + size + 64]).any()
    assert not m.host(pool.array[target + size : target + size + 64]).any()
