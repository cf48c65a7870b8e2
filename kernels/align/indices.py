"""Aligned state indices: which blocks the forward reads and writes, per recurrent group and row. Reference.

Reads the gathered tables by batch row, always: under a captured CUDA graph it also runs over padded rows,
whose gathered rows are zero (the null block) and which no slot stands for. Triton twin: `indices_triton`.
"""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.binding import Binding
from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.memory import OutOfBounds


def aligned_indices(
    binding: Binding, seq_lens: HostArray, num_rows_padded: int, block_size: int, out: HostArray
) -> None:
    """`out[g, row, j] = index_tables[g][row, first_col + j]`, `first_col = max((seq_len - 1) // block_size, 0)`.

    `seq_lens` int32 [max_reqs] in tokens (drafts counted), `out` int32 [num_recurrent_groups, max_reqs, K +
    1]. Raises OutOfBounds if a row's columns pass the table's end.
    """
    if num_rows_padded == 0:
        return
    rows = np.arange(num_rows_padded)[:, None]
    first = np.maximum((seq_lens[:num_rows_padded] - 1) // block_size, 0)
    last = int(first.max()) + out.shape[2] - 1
    if last >= binding.table_row_stride:
        raise OutOfBounds("gathered_table", int(first.argmax()), last, None, binding.table_row_stride)
    columns = first[:, None] + np.arange(out.shape[2])
    for group, table in enumerate(binding.index_tables):
        out[group, :num_rows_padded] = table[rows, columns]
