"""Postprocess: after acceptance is known, save the state at the last full block boundary. Reference.

Runs after `post_update` has advanced `num_computed`; on a non-last pipeline rank that is steps later than the
forward. A saved boundary state makes its block reusable as a prefix. Triton twin: `postprocess_triton`.
"""

from __future__ import annotations

from typing import NamedTuple

from stalerow.kernels.align.copy import copy_state
from stalerow.kernels.base.binding import Binding
from stalerow.kernels.base.device import Array, HostArray
from stalerow.kernels.base.memory import SlotState


class StepCounts(NamedTuple):
    """A step's token counts as runner V1 stages them, each int32 [max_reqs] by slot (there, the row)."""

    num_scheduled: Array
    num_computed: Array
    num_drafts: Array


def postprocess(
    slots: SlotState,
    binding: Binding,
    idx_mapping: HostArray | None,
    num_rows: int,
    block_size: int,
    counts: StepCounts | None,
    row_is_slot: bool,
) -> None:
    """For each row, save the state after `aligned` tokens if this step's accepted tokens passed that boundary.

    `total = num_computed[slot]`, or with `counts` (runner V1)
    `num_computed + num_scheduled - num_drafts + num_accepted - 1`; `first = total - num_accepted + 1`;
    `aligned = total // block_size * block_size`. Nothing if `aligned < first`. Else `bias = aligned - first`,
    target column `aligned // block_size - 1`; if that is the running column, `num_accepted` becomes 1, and
    with `bias == 0` nothing moves; otherwise `copy_state` from the running column.

    Every decision reads the snapshot of `num_accepted` taken first, never the array that is written.
    Raises OutOfBounds as `copy_state` does.
    """
    slots.num_accepted_snapshot[...] = slots.num_accepted
    ids = range(num_rows) if idx_mapping is None else idx_mapping[:num_rows].tolist()
    for row, slot in enumerate(ids):
        if slot < 0:
            continue
        accepted = int(slots.num_accepted_snapshot[slot])
        if counts is None:
            total = int(slots.num_computed[slot])
        else:
            base = int(counts.num_computed[slot]) + int(counts.num_scheduled[slot])
            total = base - int(counts.num_drafts[slot]) + accepted - 1
        first = total - accepted + 1
        aligned = total // block_size * block_size
        if aligned < first:
            continue
        bias = aligned - first
        target = aligned // block_size - 1
        running = int(slots.state_idx[slot])
        if running == target:
            slots.num_accepted[slot] = 1
            if bias == 0:
                continue
        table_row = slot if row_is_slot else row
        for state in binding.host_states:
            copy_state(binding, state, table_row, running, target, bias)
