"""The batches of all frames of a rank as dense arrays, made at once before the first frame.

A row of an array is a frame; a batch row that a universe does not have is -1 or 0 there.
"""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.device import Array, Backend
from stalerow.simulator.universes.arrays import Arrays
from stalerow.simulator.universes.memory import cast_like
from stalerow.simulator.universes.pack import Table


class Batches:
    """F frames, R batch rows of all universes.

    mapping, own, request int64 [F, R]: a row's slot, the row itself, its request, -1 for an absent row; good int64
    [F, R]: tokens that are no rejected drafts; spec int32 [F, R]; query_start_loc int32 [F, R + 1]; seq_lens, accepted
    int32 [F, R] and columns int64 [F, R, K + 1]: what the forward is meant to see; outcomes int64 [F, R]: the slot of a
    row whose output is taken.
    """

    def __init__(
        self,
        rows: Table,
        outcomes: Table,
        frames: int,
        num_rows: int,
        num_columns: int,
        drafts: int,
        arrays: Arrays,
        backend: Backend,
    ) -> None:
        def dense(table: Table, column: int, fill: int, dtype: str = "int64") -> Array:
            made = backend.alloc((frames, num_rows), dtype, fill)
            values = arrays.upload(table.values[[1, column]])
            frame = arrays.upload(np.repeat(np.arange(frames), np.diff(table.starts)))
            made[frame, values[0]] = cast_like(values[1], made)
            return made

        self.own = dense(rows, 1, -1)
        self.mapping = dense(rows, 2, -1)
        lengths = dense(rows, 3, 0)
        self.spec = dense(rows, 4, 0, "int32")
        self.request = dense(rows, 5, -1)
        self.good = dense(rows, 6, 0)
        self.accepted = dense(rows, 9, 1, "int32")
        self.seq_lens = cast_like(dense(rows, 7, 0) + lengths, self.spec)
        spans = arrays.upload(np.arange(drafts + 1))
        self.columns = (dense(rows, 8, 0)[:, :, None] + spans).clip(0, num_columns - 1)
        self.query_start_loc = cast_like(arrays.starts(lengths), self.spec)
        self.outcomes = dense(outcomes, 2, -1)
