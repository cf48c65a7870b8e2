"""The stand-in forward as two Triton launches: everything is read, then everything is written. Twin of `forward`.

The first kernel checks what each (unit, row) reads, leaves its damage and keeps the conv rows it read; the
second writes what follows from both. A program takes a tile of (unit, row) items with their positions and
bytes; recurrent items come first in the grid, attention items after them.

A block id outside the pool is masked off and counts as damage, `mix64(id) | 1`, instead of being touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import triton

from stalerow.kernels.device import Array, Backend
from stalerow.kernels.forward import ForwardStep
from stalerow.kernels.forward_plan import forward_plan
from stalerow.kernels.forward_triton_kernels import read_kernel, write_kernel
from stalerow.kernels.layout import Layout
from stalerow.kernels.memory import BlockTables, Pool, SlotState


@dataclass(frozen=True)
class _Units:
    """The plan's units on the device, recurrent ones first, and the tile sizes for them."""

    columns: Array
    """int32 [units, 8], see `forward_triton_kernels`."""
    starts: Array
    salts: Array
    num_states: int
    num_units: int
    state_bytes: int
    kv_bytes: int


class TritonForward:
    """Launches the forward; keeps the per-layout arrays and the scratch rows between calls."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # A program's elements: the interpreter pays per program, a GPU's registers per element.
        self._budget = 1 << 16 if backend.name == "triton-interpreter" else 1 << 11
        self._units: dict[Layout, _Units] = {}
        self._kept = backend.alloc(1, "uint8")

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
        rows = step.num_rows
        columns = layout.num_drafts + 1
        state_items = units.num_states * rows
        kv_items = (units.num_units - units.num_states) * rows
        state_byte_block = min(triton.next_power_of_2(units.state_bytes), 64)
        kv_byte_block = min(triton.next_power_of_2(units.kv_bytes), 64)
        state_rows = triton.next_power_of_2(max(layout.width, columns))
        state_block = self._items(state_items, state_rows * state_byte_block)
        kv_block = self._items(kv_items, 8 * kv_byte_block)
        positions = max(8, self._budget // (kv_block * kv_byte_block))
        positions = min(triton.next_power_of_2(step.hashes.shape[1]), positions)
        state_programs = triton.cdiv(state_items, state_block)
        grid = (state_programs + triton.cdiv(kv_items, kv_block),)
        arguments = dict(
            pool=pool.array,
            page_bytes=layout.page_bytes,
            num_blocks=layout.num_blocks,
            unit_fields=units.columns,
            unit_starts=units.starts,
            unit_salts=units.salts,
            state_indices=step.state_indices,
            state_indices_rows=step.state_indices.shape[1],
            table_ptrs=tables.gathered_ptrs,
            table_row_stride=tables.row_stride,
            idx_mapping=step.idx_mapping,
            query_start_loc=step.query_start_loc,
            seq_lens=step.seq_lens,
            is_spec=step.is_spec,
            num_accepted=slots.num_accepted,
            hashes=step.hashes,
            hashes_stride=step.hashes.stride(0),
            activation_in=step.activation_in,
            damage=damage,
            kept=self._kept_rows(layout, rows, units),
            num_rows=rows,
            state_programs=state_programs,
            NUM_STATES=units.num_states,
            NUM_UNITS=units.num_units,
            NUM_COLUMNS=columns,
            WINDOW=layout.window,
            STATE_BYTES=units.state_bytes,
            KV_BYTES=units.kv_bytes,
            STATE_ITEMS=state_block,
            STATE_ROWS=state_rows,
            STATE_BYTE_BLOCK=state_byte_block,
            KV_ITEMS=kv_block,
            KV_POSITIONS=positions,
            KV_BYTE_BLOCK=kv_byte_block,
        )
        read_kernel[grid](**arguments)
        write_kernel[grid](**arguments)

    def _items(self, items: int, elements: int) -> int:
        """Items per program: a power of two, as many as fit the budget."""
        fitting = 1 << max(0, (self._budget // elements).bit_length() - 1)
        return min(triton.next_power_of_2(max(items, 1)), fitting)

    def _kept_rows(self, layout: Layout, rows: int, units: _Units) -> Array:
        """Scratch for the conv rows that were read: uint8 [num_states, rows, window, state_bytes]."""
        size = units.num_states * rows * layout.window * units.state_bytes
        if self._kept.shape[0] < size:
            self._kept = self._backend.alloc(triton.next_power_of_2(size), "uint8")
        return self._kept

    def _units_of(self, layout: Layout) -> _Units:
        if layout not in self._units:
            plan = forward_plan(layout)
            classes = (*plan.recurrent, *plan.attention)
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
                for cls in classes
                for i in range(cls.units.size)
            ]
            self._units[layout] = _Units(
                columns=self._backend.from_host(np.array(fields, dtype=np.int32)),
                starts=self._backend.from_host(np.concatenate([c.start for c in classes]).astype(np.int64)),
                salts=self._backend.from_host(np.concatenate([c.salts for c in classes])),
                num_states=plan.num_states,
                num_units=plan.num_units,
                state_bytes=max((c.row_bytes for c in plan.recurrent), default=8),
                kv_bytes=max((c.row_bytes for c in plan.attention), default=8),
            )
        return self._units[layout]
