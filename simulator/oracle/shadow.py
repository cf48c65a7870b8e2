"""What a forward was meant to read and write, applied to the shadow: columns from the ledger, counts from the plan.

Uses the stand-in forward's NumPy reference on the shadow pool, with block ids looked up by request and column. No slot,
row mapping or table of the rank takes part. Where the rank has just run the same function on the same bytes, with the
same inputs row by row, what it has stored is stored here, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stalerow.kernels.base.device import NumpyBackend
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.own.forward import ForwardStep, forward
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.truth.plan import PlanRow


class Ran(NamedTuple):
    """What a rank's reference forward ran with, and what it stored (`Pool.journal`)."""

    step: ForwardStep
    tables: BlockTables
    slots: SlotState
    stored: Sequence[tuple[Any, np.ndarray]]


class Shadow:
    """A host pool with the arrays that the reference forward wants, one row per request of the batch.

    `written`: the blocks that the last forward may have changed.
    """

    def __init__(self, layout: Layout, max_rows: int, max_blocks: int) -> None:
        backend = NumpyBackend()
        self.layout = layout
        self.pool = Pool(layout, backend)
        self.pages = self.pool.pages(self.pool.array)
        self._tables = BlockTables(layout, max_rows, max_blocks, backend)
        self._slots = SlotState(max_rows, 1, backend)
        self._max_rows = max_rows
        self.written: set[int] = set()

    def forward(
        self,
        ledger: Ledger,
        rows: Sequence[PlanRow],
        hashes: np.ndarray,
        activation_in: np.ndarray,
        ran: Ran | None = None,
    ) -> None:
        """Apply the step to the shadow.

        hashes: int64 [rows, L]; activation_in: int64 [rows]. ran: what the rank ran, if that was the reference on pages
        equal to the shadow's.
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
        self.written = self._written(rows, indices)
        if ran is not None and self._same(step, ran):
            for where, values in ran.stored:
                self.pool.array[where] = values
            return
        damage, leaving = np.zeros((n, self.units), dtype=np.int64), np.zeros(n, dtype=np.int64)
        forward(self.pool, self._tables, self._slots, step, damage, leaving)

    def _written(self, rows: Sequence[PlanRow], indices: np.ndarray) -> set[int]:
        """Blocks that a step may write: those of all state indices, and of the positions that are computed."""
        blocks = {*indices[:, : len(rows)].reshape(-1).tolist()}
        for group in self.layout.attention_groups:
            size = self.layout.groups[group].block_size
            for i, row in enumerate(rows):
                columns = slice(row.start // size, -(-(row.start + row.num_tokens) // size))
                blocks.update(self._tables.gathered[group][i, columns].tolist())
        return blocks

    def _same(self, meant: ForwardStep, ran: Ran) -> bool:
        """Whether the rank's forward had the inputs that were meant, as far as a forward looks at them."""
        step, n = ran.step, meant.num_rows
        slots = step.idx_mapping[:n]
        alike = (
            step.num_rows == n
            and not (slots < 0).any()
            and np.array_equal(step.query_start_loc[: n + 1], meant.query_start_loc[: n + 1])
            and np.array_equal(step.seq_lens[:n], meant.seq_lens[:n])
            and np.array_equal(step.is_spec[:n], meant.is_spec)
            and np.array_equal(step.activation_in, meant.activation_in)
            and np.array_equal(step.hashes, meant.hashes)
        )
        if not alike:
            return False
        counts = np.diff(meant.query_start_loc[: n + 1]).tolist()
        accepted = self._slots.num_accepted[:n].tolist()
        taken = ran.slots.num_accepted[slots].tolist()
        named, wanted = step.state_indices, meant.state_indices
        for i, (length, spec) in enumerate(zip(meant.seq_lens[:n].tolist(), meant.is_spec.tolist())):
            used = 1
            if spec:
                if accepted[i] != taken[i]:
                    return False
                used = max(counts[i], accepted[i])
            if named[:, i, :used].tobytes() != wanted[:, i, :used].tobytes():
                return False
            for group in self.layout.attention_groups:
                columns = -(-length // self.layout.groups[group].block_size)
                table, own = ran.tables.gathered[group], self._tables.gathered[group]
                if table[i, :columns].tobytes() != own[i, :columns].tobytes():
                    return False
        return True

    @property
    def units(self) -> int:
        """Columns of a damage array: recurrent states, then attention layers."""
        return len(self.layout.states) + len(self.layout.attention_groups) * self.layout.layers
