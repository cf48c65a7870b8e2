"""`Operators` on Triton: the launches of the `_triton` modules as one object per backend."""

from __future__ import annotations

from stalerow.kernels.base.device import Array, Backend
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.own import blocks_triton, tables_triton, update_triton
from stalerow.kernels.own.forward import ForwardStep
from stalerow.kernels.own.forward_triton import TritonForward


class TritonOperators:
    """Every launch goes to `backend`'s stream (or runs at once in the interpreter); arrays live on it."""

    apply_writes = staticmethod(tables_triton.apply_writes)
    set_num_blocks = staticmethod(tables_triton.set_num_blocks)
    gather = staticmethod(tables_triton.gather)
    seed_slots = staticmethod(update_triton.seed_slots)
    seq_lens = staticmethod(update_triton.seq_lens)
    post_update = staticmethod(update_triton.post_update)
    advance_computed = staticmethod(update_triton.advance_computed)
    scatter_accepted = staticmethod(update_triton.scatter_accepted)
    fill_accepted = staticmethod(update_triton.fill_accepted)
    fill_blocks = staticmethod(blocks_triton.fill_blocks)
    copy_blocks = staticmethod(blocks_triton.copy_blocks)

    def __init__(self, backend: Backend) -> None:
        self._forward = TritonForward(backend)

    def forward(
        self,
        pool: Pool,
        tables: BlockTables,
        slots: SlotState,
        step: ForwardStep,
        damage: Array,
        activation_out: Array,
    ) -> None:
        self._forward(pool, tables, slots, step, damage, activation_out)
