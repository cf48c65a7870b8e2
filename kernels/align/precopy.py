"""Precopy: move each accepted state from the old running column to the new one, before the forward. Reference.

Reads what `preprocess` left in the slots and the tables of the binding. Triton twin: `precopy_triton`.
"""

from __future__ import annotations

from stalerow.kernels.align.copy import copy_state
from stalerow.kernels.base.binding import Binding
from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.memory import SlotState


def precopy(
    slots: SlotState, binding: Binding, idx_mapping: HostArray | None, num_rows: int, row_is_slot: bool
) -> None:
    """For each row and state, `copy_state` from column `src_col` to `state_idx` with bias `src_off`.

    Skipped where the slot is -1, the request is fresh (`src_col < 0`) or the column did not move. The table
    row is the slot if `row_is_slot`, else the batch row. Without `idx_mapping` the row is the slot (runner
    V1). Raises OutOfBounds as `copy_state` does.
    """
    ids = range(num_rows) if idx_mapping is None else idx_mapping[:num_rows].tolist()
    for row, slot in enumerate(ids):
        if slot < 0:
            continue
        source = int(slots.src_col[slot])
        target = int(slots.state_idx[slot])
        if source < 0 or source == target:
            continue
        bias = int(slots.src_off[slot])
        table_row = slot if row_is_slot else row
        for state in binding.host_states:
            copy_state(binding, state, table_row, source, target, bias)
