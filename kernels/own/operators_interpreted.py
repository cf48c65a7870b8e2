"""Operators beside Triton's interpreter: tables and gather are interpreted, everything else runs as its reference.

The interpreter takes milliseconds a launch. What decides which block a copy kernel finds (table writes and the gather)
is interpreted like the kernels under test; the token bookkeeping, page fills and the stand-in forward work on the same
CPU memory through zero-copy NumPy views. `tests/kernels` holds each reference and its Triton twin equal, byte for byte.
"""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakKeyDictionary

from stalerow.kernels.base.device import Array, Backend
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.own.forward import ForwardStep
from stalerow.kernels.own.operators import ReferenceOperators
from stalerow.kernels.own.operators_triton import TritonOperators


class InterpretedOperators(TritonOperators):
    """`TritonOperators` on CPU tensors, with NumPy in place of the launches that are not worth interpreting."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._reference = ReferenceOperators()
        self._views: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def _view(self, owner: Any) -> Any:
        """A stand-in for a Pool, BlockTables or SlotState whose arrays are NumPy views of the tensors."""
        view = self._views.get(owner)
        if view is None:
            view = copy.copy(owner)
            for name, value in vars(owner).items():
                if isinstance(value, list):
                    setattr(view, name, [array.numpy() for array in value])
                elif hasattr(value, "numpy"):
                    setattr(view, name, value.numpy())
            self._views[owner] = view
        return view

    def seed_slots(
        self,
        slots: SlotState,
        slot_ids: Array,
        state_idx: Array,
        num_accepted: Array,
        num_computed: Array,
        total_len: Array,
        tokens: Array,
        n: int,
    ) -> None:
        self._reference.seed_slots(
            self._view(slots),
            slot_ids.numpy(),
            state_idx.numpy(),
            num_accepted.numpy(),
            num_computed.numpy(),
            total_len.numpy(),
            tokens.numpy(),
            n,
        )

    def seq_lens(
        self,
        slots: SlotState,
        idx_mapping: Array,
        query_start_loc: Array,
        num_rows: int,
        num_rows_padded: int,
        out: Array,
    ) -> None:
        self._reference.seq_lens(
            self._view(slots), idx_mapping.numpy(), query_start_loc.numpy(), num_rows, num_rows_padded, out.numpy()
        )

    def post_update(
        self,
        slots: SlotState,
        idx_mapping: Array,
        sampled: Array,
        num_sampled: Array,
        num_rejected: Array,
        query_start_loc: Array | None,
        num_rows: int,
    ) -> None:
        self._reference.post_update(
            self._view(slots),
            idx_mapping.numpy(),
            sampled.numpy(),
            num_sampled.numpy(),
            num_rejected.numpy(),
            None if query_start_loc is None else query_start_loc.numpy(),
            num_rows,
        )

    def advance_computed(self, slots: SlotState, idx_mapping: Array, query_start_loc: Array, num_rows: int) -> None:
        self._reference.advance_computed(self._view(slots), idx_mapping.numpy(), query_start_loc.numpy(), num_rows)

    def scatter_accepted(self, slots: SlotState, idx_mapping: Array, num_sampled: Array, num_rows: int) -> None:
        self._reference.scatter_accepted(self._view(slots), idx_mapping.numpy(), num_sampled.numpy(), num_rows)

    def fill_accepted(self, slots: SlotState, idx_mapping: Array, value: int, num_rows: int) -> None:
        self._reference.fill_accepted(self._view(slots), idx_mapping.numpy(), value, num_rows)

    def fill_blocks(self, pool: Pool, block_ids: Array, n: int, byte: int) -> None:
        self._reference.fill_blocks(self._view(pool), block_ids.numpy(), n, byte)

    def copy_blocks(self, pool: Pool, src: Array, dst: Array, n: int) -> None:
        self._reference.copy_blocks(self._view(pool), src.numpy(), dst.numpy(), n)

    def forward(
        self,
        pool: Pool,
        tables: BlockTables,
        slots: SlotState,
        step: ForwardStep,
        damage: Array,
        activation_out: Array,
    ) -> None:
        arrays = ForwardStep(*(f.numpy() if hasattr(f, "numpy") else f for f in step))
        self._reference.forward(
            self._view(pool), self._view(tables), self._view(slots), arrays, damage.numpy(), activation_out.numpy()
        )
