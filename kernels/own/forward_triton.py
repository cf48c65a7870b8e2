"""The stand-in forward as Triton launches: everything is read, then everything is written. Twin of `forward`.

The first two kernels check what each (unit, row) reads, leave its damage and keep the conv rows that were
read; the other two write what follows from both. A program takes a tile of (unit, row) items with their
positions and bytes.

A block id outside the pool is masked off and counts as damage (`BAD_BLOCK`) instead of being touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import triton

from stalerow.kernels.base.device import Array, Backend
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.own.forward import ForwardStep
from stalerow.kernels.own.forward_classes import forward_classes
from stalerow.kernels.own.forward_triton_read import read_kv_kernel, read_states_kernel
from stalerow.kernels.own.forward_triton_write import write_kv_kernel, write_states_kernel

MAX_BYTE_BLOCK = 64
MIN_POSITIONS = 8
"""Bounds of a program's tile: bytes of a row, and attention positions."""

HOST_ITEMS, HOST_BYTES = 4, 8
"""The tile of a program that is compiled for the host, whatever the layout: every other tile is another compilation."""


@dataclass(frozen=True)
class _Units:
    """The classes's units on the device, recurrent ones first, and the tile sizes for them."""

    fields: Array
    """int32 [units, 8], see `forward_triton_read`."""
    starts: Array
    salts: Array
    num_states: int
    num_units: int
    state_bytes: int
    kv_bytes: int


class TritonForward:
    """Launches the forward; keeps the per-layout arrays, and every pool's scratch rows, between calls.

    Forwards of one pool run one after another; those of two may overlap on two streams, so they share no scratch.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # A program's elements: the interpreter pays per program, a GPU's registers and a host's cache per element.
        self._compiled_for_host = backend.name == "triton-cpu"
        self._budget = 1 << 16 if backend.name == "triton-interpreter" else 1 << 11
        self._units: dict[Layout, _Units] = {}
        self._kept: WeakKeyDictionary[Pool, Array] = WeakKeyDictionary()

    def __call__(
        self,
        pool: Pool,
        tables: BlockTables,
        slots: SlotState,
        step: ForwardStep,
        damage: Array,
        activation_out: Array,
    ) -> None:
        """See `forward.forward`."""
        layout = pool.layout
        units = self._units_of(layout)
        damage.zero_()
        if step.num_rows:
            self._launch(pool, tables, slots, step, damage, units)
        activation_out.copy_(step.activation_in + damage.sum(dim=1))

    def _launch(
        self,
        pool: Pool,
        tables: BlockTables,
        slots: SlotState,
        step: ForwardStep,
        damage: Array,
        units: _Units,
    ) -> None:
        layout = pool.layout
        rows, columns = step.num_rows, layout.num_drafts + 1
        common = {
            "pool": pool.array,
            "page_bytes": layout.page_bytes,
            "num_blocks": layout.num_blocks,
            "unit_fields": units.fields,
            "unit_starts": units.starts,
            "unit_salts": units.salts,
            "idx_mapping": step.idx_mapping,
            "query_start_loc": step.query_start_loc,
            "seq_lens": step.seq_lens,
            "is_spec": step.is_spec,
            "hashes": step.hashes,
            "hashes_stride": step.hashes.stride(0),
            "damage": damage,
            "num_rows": rows,
            "num_states": units.num_states,
            "num_units": units.num_units,
        }

        window_rows = triton.next_power_of_2(max(layout.width, columns))
        state_bytes = self._byte_block(units.state_bytes)
        state_items = self._items(units.num_states * rows, window_rows * state_bytes)
        state_grid = (triton.cdiv(units.num_states * rows, state_items),)
        states = {
            "state_indices": step.state_indices,
            "state_indices_rows": step.state_indices.shape[1],
            "kept": self._kept_rows(pool, rows, units),
            "num_columns": columns,
            "window": layout.window,
            "max_bytes": units.state_bytes,
            "ITEMS": state_items,
            "ROWS": window_rows,
            "BYTES": state_bytes,
        }

        kv_units = units.num_units - units.num_states
        kv_bytes = self._byte_block(units.kv_bytes)
        kv_items = self._items(kv_units * rows, MIN_POSITIONS * kv_bytes)
        kv_grid = (triton.cdiv(kv_units * rows, kv_items),)
        positions = max(MIN_POSITIONS, self._budget // (kv_items * kv_bytes))
        if self._compiled_for_host:
            positions = MIN_POSITIONS
        else:
            positions = min(triton.next_power_of_2(step.hashes.shape[1]), positions)
        kv = {
            "table_ptrs": tables.gathered_ptrs,
            "table_row_stride": tables.row_stride,
            "max_bytes": units.kv_bytes,
            "ITEMS": kv_items,
            "POSITIONS": positions,
            "BYTES": kv_bytes,
        }

        if units.num_states:
            read_states_kernel[state_grid](num_accepted=slots.num_accepted, **common, **states)
        if kv_units:
            read_kv_kernel[kv_grid](TORN=units.kv_bytes > 8, **common, **kv)
        if units.num_states:
            write_states_kernel[state_grid](activation_in=step.activation_in, **common, **states)
        if kv_units:
            write_kv_kernel[kv_grid](activation_in=step.activation_in, **common, **kv)

    def _items(self, items: int, elements: int) -> int:
        """Items per program: a power of two, as many as fit the budget."""
        if self._compiled_for_host:
            return HOST_ITEMS
        fitting = 1 << max(0, (self._budget // elements).bit_length() - 1)
        return min(triton.next_power_of_2(max(items, 1)), fitting)

    def _byte_block(self, row_bytes: int) -> int:
        """Bytes of a row that a program takes at once."""
        return HOST_BYTES if self._compiled_for_host else min(triton.next_power_of_2(row_bytes), MAX_BYTE_BLOCK)

    def _kept_rows(self, pool: Pool, rows: int, units: _Units) -> Array:
        """Scratch for the conv rows that were read: uint8 [num_states, rows, window, state_bytes]."""
        size = units.num_states * rows * pool.layout.window * units.state_bytes
        kept = self._kept.get(pool)
        if kept is None or kept.shape[0] < size:
            kept = self._kept[pool] = self._backend.alloc(triton.next_power_of_2(max(size, 1)), "uint8")
        return kept

    def _units_of(self, layout: Layout) -> _Units:
        if layout not in self._units:
            classes = forward_classes(layout)
            every = (*classes.recurrent, *classes.attention)
            fields = [
                (
                    cls.units[i],
                    cls.table[i],
                    cls.conv,
                    cls.block_size,
                    cls.row_bytes,
                    cls.row_stride,
                    cls.chunk,
                    cls.chunk_stride,
                )
                for cls in every
                for i in range(cls.units.size)
            ]
            self._units[layout] = _Units(
                fields=self._backend.from_host(np.array(fields, dtype=np.int32)),
                starts=self._backend.from_host(np.concatenate([c.start for c in every]).astype(np.int64)),
                salts=self._backend.from_host(np.concatenate([c.salts for c in every])),
                num_states=classes.num_states,
                num_units=classes.num_units,
                state_bytes=max((c.row_bytes for c in classes.recurrent), default=8),
                kv_bytes=max((c.row_bytes for c in classes.attention), default=8),
            )
            self._backend.synchronize()  # other streams read it too
        return self._units[layout]
