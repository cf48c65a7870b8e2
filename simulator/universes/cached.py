"""Read what the prefix cache still offers when a pack is done, as a request that hits it would."""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.device import Array
from stalerow.kernels.base.memory import SlotState
from stalerow.kernels.own.operators import ForwardStep
from stalerow.simulator.universes.memory import cast_like, null_tables
from stalerow.simulator.universes.rank_memory import RankMemory


def damage_of_cached(group: RankMemory, cached: Array) -> Array:
    """Run a forward over the cached states, one row each: int64 [cached, states], zero where all is as it should be.

    cached: int64 [5, n], universe and the columns of `tape.COLUMNS["cached"]`.
    """
    index, request, block, num_tokens = cached[1:]
    n = len(index)
    backend, layout, pack, upload = group.backend, group.layout, group.pack, group.arrays.upload
    rows = upload(np.arange(n))
    null = (pack.ranks[group.rank]["cached"].values[0] * pack.sizes["blocks"]).astype(np.int32)
    tables = null_tables(layout, null, pack.sizes["columns"], backend)
    slots = SlotState(n, 1, backend)
    indices = backend.alloc((len(layout.recurrent_groups), n, layout.num_drafts + 1), "int32")
    indices[:] = upload(null)[None, :, None]
    indices[index, rows, 0] = cast_like(block, indices)
    hashes = backend.alloc((n, group.hashes.shape[1]), "int64")
    group.universe_ops.prefix_hashes(group.streams, request, num_tokens, num_tokens, hashes)
    damage = backend.alloc((n, group.damage.shape[1]), "int64")
    step = ForwardStep(
        idx_mapping=rows,
        query_start_loc=group.arrays.starts(rows * 0 + 1),
        seq_lens=cast_like(num_tokens + 1, slots.state_idx),
        state_indices=indices,
        is_spec=backend.alloc(n, "int32"),
        hashes=hashes,
        activation_in=backend.alloc(n, "int64"),
        num_rows=n,
    )
    group.ops.forward(group.pool, tables, slots, step, damage, backend.alloc(n, "int64"))
    group_of = upload(np.array([entry.group_index for entry in layout.states]))
    mine: Array = group_of[None, :] == index[:, None]
    found: Array = damage[:, : len(layout.states)] * mine
    return found
