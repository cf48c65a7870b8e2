"""Token and slot bookkeeping: admission, sequence lengths, and what a step's output changes. References.

Inputs are a step's batch (`idx_mapping`, `query_start_loc`) and what was sampled; the results live in
`SlotState` and feed preprocess, postprocess and the next step's lengths. Triton twins: `update_triton`.
Every operator skips rows whose slot is -1.
"""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.memory import OutOfBounds, SlotState, live_rows


def seed_slots(
    slots: SlotState,
    slot_ids: HostArray,
    state_idx: HostArray,
    num_accepted: HostArray,
    num_computed: HostArray,
    total_len: HostArray,
    tokens: HostArray,
    n: int,
) -> None:
    """Admit `n` requests: write each slot's state and `token_ids[slot, :total_len] = tokens[i, :total_len]`.

    int32 [n]; `tokens` int32 [n, max_model_len]. Seeds of vLLM: `state_idx = (num_computed - 1) //
    block_size`, `num_accepted = 1`; a slot that keeps an older request's values reads a state that is not its
    own.
    """
    for i, slot in enumerate(slot_ids[:n].tolist()):
        if slot < 0:
            continue
        length = int(total_len[i])
        slots.state_idx[slot] = state_idx[i]
        slots.num_accepted[slot] = num_accepted[i]
        slots.num_computed[slot] = num_computed[i]
        slots.total_len[slot] = length
        slots.token_ids[slot, :length] = tokens[i, :length]


def seq_lens(
    slots: SlotState,
    idx_mapping: HostArray,
    query_start_loc: HostArray,
    num_rows: int,
    num_rows_padded: int,
    out: HostArray,
) -> None:
    """`out[row] = num_computed[slot] + query_len`, 0 for padded rows and rows without a slot. int32 [max_reqs]."""
    rows, ids = live_rows(idx_mapping, num_rows)
    out[:num_rows_padded] = 0
    out[rows] = slots.num_computed[ids] + query_start_loc[rows + 1] - query_start_loc[rows]


def post_update(
    slots: SlotState,
    idx_mapping: HostArray,
    sampled: HostArray,
    num_sampled: HostArray,
    num_rejected: HostArray,
    query_start_loc: HostArray | None,
    num_rows: int,
) -> None:
    """Store a step's sampled tokens and advance the counts.

    `token_ids[slot, total_len : total_len + num_sampled] = sampled[row, :num_sampled]`; `last_token` is the
    last of them; `total_len += num_sampled`; `num_computed += query_len - num_rejected`, where `query_len` is
    0 if `query_start_loc` is None (a non-last pipeline rank, which added it already). `sampled` int64 [rows,
    K + 1], the counts int32 [rows].
    """
    for row, slot in enumerate(idx_mapping[:num_rows].tolist()):
        if slot < 0:
            continue
        count = int(num_sampled[row])
        if count > 0:
            start = int(slots.total_len[slot])
            if start + count > slots.max_model_len:
                raise OutOfBounds("token_ids", slot, start + count - 1, None, slots.max_model_len)
            slots.token_ids[slot, start : start + count] = sampled[row, :count]
            slots.last_token[slot] = sampled[row, count - 1]
            slots.total_len[slot] = start + count
        query_len = 0 if query_start_loc is None else query_start_loc[row + 1] - query_start_loc[row]
        slots.num_computed[slot] += query_len - num_rejected[row]


def advance_computed(slots: SlotState, idx_mapping: HostArray, query_start_loc: HostArray, num_rows: int) -> None:
    """`num_computed[slot] += query_len`: a non-last rank's optimistic advance, before acceptance is known."""
    rows, ids = live_rows(idx_mapping, num_rows)
    slots.num_computed[ids] += query_start_loc[rows + 1] - query_start_loc[rows]


def scatter_accepted(slots: SlotState, idx_mapping: HostArray, num_sampled: HostArray, num_rows: int) -> None:
    """`num_accepted[slot] = max(num_sampled[row], 1)`; a row that sampled nothing gets the neutral 1."""
    rows, ids = live_rows(idx_mapping, num_rows)
    slots.num_accepted[ids] = np.maximum(num_sampled[rows], 1)


def fill_accepted(slots: SlotState, idx_mapping: HostArray, value: int, num_rows: int) -> None:
    """`num_accepted[slot] = max(value, 1)` for every row."""
    _, ids = live_rows(idx_mapping, num_rows)
    slots.num_accepted[ids] = max(value, 1)
