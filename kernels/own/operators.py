"""Everything a rank launches besides the align kernels, as one object per backend.

`Operators` is the protocol; `ReferenceOperators` runs the NumPy specifications, `TritonOperators`
(`operators_triton`) their Triton twins. A rank takes them from its kernel set and calls them in stream order.
Argument shapes and rules are those of the functions of the same names.
"""

from __future__ import annotations

from typing import Protocol

from stalerow.kernels.base.device import Array
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.own import blocks, tables, update
from stalerow.kernels.own.forward import ForwardStep, forward

__all__ = ["ForwardStep", "Operators", "ReferenceOperators"]


class Operators(Protocol):
    """Tables (`tables`), bookkeeping (`update`), whole pages (`blocks`) and the stand-in forward (`forward`)."""

    def apply_writes(
        self,
        tables: BlockTables,
        group_ids: Array,
        slots: Array,
        starts: Array,
        cu_lens: Array,
        contents: Array,
        n: int,
    ) -> None: ...

    def set_num_blocks(self, tables: BlockTables, values: Array) -> None: ...

    def gather(
        self,
        tables: BlockTables,
        idx_mapping: Array,
        num_rows: int,
        num_rows_padded: int,
        zero_padding: bool = True,
    ) -> None: ...

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
    ) -> None: ...

    def seq_lens(
        self,
        slots: SlotState,
        idx_mapping: Array,
        query_start_loc: Array,
        num_rows: int,
        num_rows_padded: int,
        out: Array,
    ) -> None: ...

    def post_update(
        self,
        slots: SlotState,
        idx_mapping: Array,
        sampled: Array,
        num_sampled: Array,
        num_rejected: Array,
        query_start_loc: Array | None,
        num_rows: int,
    ) -> None: ...

    def advance_computed(self, slots: SlotState, idx_mapping: Array, query_start_loc: Array, num_rows: int) -> None: ...

    def scatter_accepted(self, slots: SlotState, idx_mapping: Array, num_sampled: Array, num_rows: int) -> None: ...

    def fill_accepted(self, slots: SlotState, idx_mapping: Array, value: int, num_rows: int) -> None: ...

    def fill_blocks(self, pool: Pool, block_ids: Array, n: int, byte: int) -> None: ...

    def copy_blocks(self, pool: Pool, src: Array, dst: Array, n: int) -> None: ...

    def forward(
        self,
        pool: Pool,
        tables: BlockTables,
        slots: SlotState,
        step: ForwardStep,
        damage: Array,
        activation_out: Array,
    ) -> None: ...


class ReferenceOperators:
    """The NumPy specifications, on host arrays, in place."""

    apply_writes = staticmethod(tables.apply_writes)
    set_num_blocks = staticmethod(tables.set_num_blocks)
    gather = staticmethod(tables.gather)
    seed_slots = staticmethod(update.seed_slots)
    seq_lens = staticmethod(update.seq_lens)
    post_update = staticmethod(update.post_update)
    advance_computed = staticmethod(update.advance_computed)
    scatter_accepted = staticmethod(update.scatter_accepted)
    fill_accepted = staticmethod(update.fill_accepted)
    fill_blocks = staticmethod(blocks.fill_blocks)
    copy_blocks = staticmethod(blocks.copy_blocks)
    forward = staticmethod(forward)
