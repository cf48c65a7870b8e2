"""What a forward was meant to read and write, applied to the shadow: columns from the ledger, counts from the plan.

Uses the stand-in forward's NumPy reference on the shadow pool, with block ids looked up by request and column. No slot,
row mapping or table of the rank takes part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stalerow.kernels.base.device import NumpyBackend
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.own.forward import ForwardStep, forward
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.truth.plan import PlanRow


class Shadow:
    """A host pool with the arrays that the reference forward wants, one row per request of the batch."""

    def __init__(self, layout: Layout, max_rows: int, max_blocks: int) -> None:
        backend = NumpyBackend()
        self.layout = layout
        self.pool = Pool(layout, backend)
        self.pages = self.pool.pages(self.pool.array)
        self._tables = BlockTables(layout, max_rows, max_blocks, backend)
        self._slots = SlotState(max_rows, 1, backend)
        self._max_rows = max_rows

    def forward(
        self, ledger: Ledger, rows: Sequence[PlanRow], hashes: np.ndarray, activation_in: np.ndarray
    ) -> np.ndarray:
        """Apply the step to the shadow. Returns damage int64 [rows, units]: nonzero where the shadow was wrong already.

        hashes: int64 [rows, L]; activation_in: int64 [rows].
        """
        layout, n = self.layout, len(rows)
        spans = layout.num_drafts + 1
        indices = np.zeros((len(layout.recurrent_groups), self._max_rows, spans), dtype=np.int32)
        seq_lens = np.zeros(self._max_rows, dtype=np.int32)
        qsl = np.zeros(self._max_rows + 1, dtype=np.int32)
        for i, row in enumerate(rows):
            seq_lens[i] = row.start + row.num_tokens
            qsl[i + 1] = qsl[i] + row.num_tokens
            self._slots.num_accepted[i] = row.accepted_in_forward
            for g, group in enumerate(layout.recurrent_groups):
                columns = ledger.columns[row.request][group][row.column : row.column + spans]
                indices[g, i, : len(columns)] = columns
            for group in layout.attention_groups:
                columns = ledger.columns[row.request][group]
                self._tables.gathered[group][i, : len(columns)] = columns
        qsl[n + 1 :] = qsl[n]
        damage = np.zeros((n, self.units), dtype=np.int64)
        step = ForwardStep(
            idx_mapping=np.arange(n, dtype=np.int64),
            query_start_loc=qsl,
            seq_lens=seq_lens,
            state_indices=indices,
            is_spec=np.array([r.is_spec for r in rows], dtype=np.int32),
            hashes=hashes,
            activation_in=activation_in,
            num_rows=n,
        )
        forward(self.pool, self._tables, self._slots, step, damage, np.zeros(n, dtype=np.int64))
        return damage

    @property
    def units(self) -> int:
        """Columns of a damage array: recurrent states, then attention layers."""
        return len(self.layout.states) + len(self.layout.attention_groups) * self.layout.layers
