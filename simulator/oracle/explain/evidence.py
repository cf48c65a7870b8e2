"""What an explanation has to go by: one launch's surroundings, collected once something is wrong.

The truth (plan, ledger, what the pool should hold) beside what the rank's own arrays held when the launch had run. Rows
and tables are here to name who was confused with whom; no verdict depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stalerow.kernels.base.layout import Layout
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.truth.plan import Planner


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Arrays are on the host; explanations change none of them.

    rank: its index. wanted: what the pool should hold, uint8 [layers, num_blocks, page_bytes]. persistent, gathered:
    block tables by slot and by batch row, int32 [max_reqs, max_blocks] per group; `gathered_step` is the step whose
    batch was gathered last, None before the first. by_slot: whether the copy kernels look up the persistent tables.
    state_indices: int32 [recurrent groups, max_reqs, K + 1]. num_accepted: int32 [max_reqs] by slot. dead_binding:
    whether the kernels are bound to a cache that is gone.
    """

    rank: int
    layout: Layout
    planner: Planner
    ledger: Ledger
    wanted: np.ndarray
    persistent: Sequence[np.ndarray]
    gathered: Sequence[np.ndarray]
    gathered_step: int | None
    by_slot: bool
    state_indices: np.ndarray
    num_accepted: np.ndarray
    dead_binding: bool


def evidence(rank: Rank, planner: Planner, ledger: Ledger, wanted: np.ndarray) -> Evidence:
    """Of a rank as it stands now."""
    host = rank.backend.to_host
    bound = rank.binder.bound_to
    return Evidence(
        rank=rank.index,
        layout=rank.layout,
        planner=planner,
        ledger=ledger,
        wanted=wanted,
        persistent=[host(table) for table in rank.tables.persistent],
        gathered=[host(table) for table in rank.tables.gathered],
        gathered_step=rank.gathered_step,
        by_slot=rank.align.reads_slot_tables,
        state_indices=host(rank.state_indices),
        num_accepted=host(rank.slots.num_accepted),
        dead_binding=bound is not None and bound != rank.cache.cache_id,
    )
