"""Preprocess: before the forward, note where each request's state is and where it has to be. Reference.

Reads the batch and the slots' counts; leaves `src_col` and `src_off` for `precopy`, and the new running
column in `state_idx`. Triton twin: `preprocess_triton`.
"""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.memory import SlotState, live_rows


def preprocess(
    slots: SlotState, idx_mapping: HostArray, query_start_loc: HostArray, num_rows: int, block_size: int
) -> None:
    """Advance the running column of every slot in the batch.

    `src_col = state_idx`; `src_off = max(num_accepted - 1, 0)`;
    `state_idx = cdiv(num_computed + query_len, block_size) - 1` (drafts counted); `num_accepted = 1` where
    the old column was valid (>= 0) and differs, because the state will then be at the start of its new
    column. `block_size` is in tokens. Rows whose slot is -1 are skipped.
    """
    rows, ids = live_rows(idx_mapping, num_rows)
    old = slots.state_idx[ids]
    accepted = slots.num_accepted[ids]
    slots.src_col[ids] = old
    slots.src_off[ids] = np.maximum(accepted - 1, 0)
    after = slots.num_computed[ids] + query_start_loc[rows + 1] - query_start_loc[rows]
    new = (after + (block_size - 1)) // block_size - 1
    slots.state_idx[ids] = new
    slots.num_accepted[ids] = np.where((old >= 0) & (old != new), 1, accepted)
