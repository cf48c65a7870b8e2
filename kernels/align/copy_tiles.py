"""How the states of a binding are cut into tiles for the copy kernels, and what these have to know of each state."""

from __future__ import annotations

import numpy as np
import torch
import triton

from stalerow.kernels.base.binding import Binding
from stalerow.kernels.base.device import Array, HostArray
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import reached_by, reaches

TILE_STEPS = 4
"""Steps of a tile at most."""


class CopyTiles:
    """How the states of a binding are cut into tiles, and the counter from which its launches draw them.

    Launches over one binding run one after another, as their copies must, so they can share the counter.
    """

    def __init__(self, binding: Binding, copy_block: int) -> None:
        step = copy_block * 8
        self.width_block = triton.next_power_of_2(binding.layout.width)
        largest = max(state.data_bytes for state in binding.layout.states)
        self.tile_steps = min(TILE_STEPS, triton.next_power_of_2(triton.cdiv(largest, step)))
        tiles = tiles_of(binding.layout, copy_block, self.tile_steps, self.width_block)
        self.states = state_records(binding)
        self.table = torch.from_numpy(tiles).to(self.states.device)
        self.draws = torch.zeros(1, dtype=torch.int32, device=self.states.device)


def tiles_of(layout: Layout, copy_block: int, tile_steps: int, width_block: int) -> HostArray:
    """The tiles that every moving row is cut into, int32 [tiles, 2]: the state, and the tile's number within it.

    A tile is `tile_steps` steps, and a step `copy_block` 8-byte words of a temporal state; of a window it is as many
    bytes of each of its rows as fit `width_block` times, so that all rows of those bytes can be moved at once.
    """
    tiles: list[tuple[int, int]] = []
    for number, state in enumerate(layout.states):
        tile_bytes = copy_block * 8 // (width_block if state.conv_width else 1) * tile_steps
        tiles += [(number, part) for part in range(-(-state.spec.row_bytes // tile_bytes))]
    return np.array(tiles, dtype=np.int32)


def state_records(binding: Binding) -> Array:
    """What a copy has to know of each state, int64 [states, RECORD], so that one line of the cache holds it.

    Address of block 0's data, bytes between blocks, bytes of a row (a temporal state is one), rows of the window (0 for
    a temporal state), bytes of an element, bytes between the channels of a DS window, address of the block table.
    """
    elem = binding.state_elem_sizes.to(torch.int64)
    columns = [
        binding.state_base_addrs,
        binding.state_block_strides,
        torch.maximum(binding.state_inner_sizes, binding.state_dim_row_count.to(torch.int64)) * elem,
        binding.state_conv_widths.to(torch.int64),
        elem,
        binding.state_dim_row_stride,
        binding.copy_table_ptrs[binding.state_group_indices.to(torch.int64)],
    ]
    records = torch.stack([*columns, torch.zeros_like(elem)], 1).contiguous()
    reached = (reached_by(pointers) or () for pointers in (binding.state_base_addrs, binding.copy_table_ptrs))
    reaches(records, [region for regions in reached for region in regions])
    return records
