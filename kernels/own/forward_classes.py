"""The units of a stand-in forward: every recurrent state and attention layer, grouped so each group is one loop.

Derived from a `Layout` alone; `forward` and `forward_triton` walk it. A *unit* is one column of the forward's
`damage` output: first the recurrent states (`Layout.states` order), then the attention layers, group by group
and layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.layout import Layout, StateEntry
from stalerow.kernels.base.patterns import salt


@dataclass(frozen=True, eq=False)
class UnitClass:
    """Units whose rows have the same shape. Arrays have one element per unit; offsets and sizes are bytes."""

    conv: bool
    group: int
    """Attention: index in `Layout.groups`. Recurrent: -1, see `table`."""
    units: HostArray
    """Column of `damage`."""
    table: HostArray
    """Recurrent: index among the recurrent groups. Attention: the group."""
    start: HostArray
    """Offset in the pool of block 0's data."""
    salts: HostArray
    block_size: int
    """Attention: tokens per block. Recurrent: 1, as the column is chosen by the aligned indices."""
    row_bytes: int
    row_stride: int
    """Bytes between the rows of consecutive tokens in a block; 0 where a block has one row."""
    chunk: int
    chunk_stride: int
    """Byte `j` of a row is at `j // chunk * chunk_stride + j % chunk`: DS windows spread a token over channels."""

    @cached_property
    def byte_offsets(self) -> HostArray:
        """int64 [row_bytes]: where each byte of a row is, from the row's first byte."""
        j = np.arange(self.row_bytes)
        return j // self.chunk * self.chunk_stride + j % self.chunk


@dataclass(frozen=True, eq=False)
class ForwardClasses:
    """The classes in the order in which they write, and the number of units."""

    recurrent: tuple[UnitClass, ...]
    attention: tuple[UnitClass, ...]
    num_states: int
    num_units: int


@lru_cache(maxsize=64)
def forward_classes(layout: Layout) -> ForwardClasses:
    """The classes of a layout: temporal states before conv windows, shorter rows first, then attention."""
    by_shape: dict[tuple[bool, int, int], list[tuple[int, StateEntry]]] = {}
    for unit, entry in enumerate(layout.states):
        conv = entry.conv_width > 0
        spread = entry.spec.elem_size if conv and layout.conv_layout == "DS" else 0
        by_shape.setdefault((conv, entry.spec.row_bytes, spread), []).append((unit, entry))
    recurrent = [_recurrent_class(layout, by_shape[shape]) for shape in sorted(by_shape)]

    attention = []
    first = len(layout.states)
    for group in layout.attention_groups:
        attention.append(_attention_class(layout, group, first))
        first += layout.layers
    return ForwardClasses(tuple(recurrent), tuple(attention), len(layout.states), first)


def _recurrent_class(layout: Layout, members: list[tuple[int, StateEntry]]) -> UnitClass:
    entries = [entry for _, entry in members]
    spec = entries[0].spec
    conv = entries[0].conv_width > 0
    channels_first = conv and layout.conv_layout == "DS"
    return UnitClass(
        conv=conv,
        group=-1,
        units=np.array([unit for unit, _ in members]),
        table=np.array([e.group_index for e in entries]),
        start=np.array([layout.page_start(e.layer, 0) + e.offset for e in entries]),
        salts=np.array([salt(e.group, e.layer, e.state) for e in entries], dtype=np.int64),
        block_size=1,
        row_bytes=spec.row_bytes,
        row_stride=(spec.elem_size if channels_first else spec.row_bytes) if conv else 0,
        chunk=spec.elem_size if channels_first else spec.row_bytes,
        chunk_stride=layout.width * spec.elem_size if channels_first else 0,
    )


def _attention_class(layout: Layout, group: int, first_unit: int) -> UnitClass:
    spec = layout.groups[group]
    layers = range(layout.layers)
    return UnitClass(
        conv=False,
        group=group,
        units=np.array([first_unit + layer for layer in layers]),
        table=np.array([group for _ in layers]),
        start=np.array([layout.page_start(layer, 0) for layer in layers]),
        salts=np.array([salt(group, layer, 0) for layer in layers], dtype=np.int64),
        block_size=spec.block_size,
        row_bytes=spec.kv_bytes,
        row_stride=spec.kv_bytes,
        chunk=spec.kv_bytes,
        chunk_stride=0,
    )
