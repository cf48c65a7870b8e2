"""Aligned state indices as a Triton kernel: all groups, `ROWS` rows a program. Twin of `indices`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows_padded"])
def aligned_indices_kernel(
    table_ptrs,
    seq_lens,
    out,
    table_row_stride: tl.int64,
    out_group_stride: tl.int64,
    out_row_stride: tl.int64,
    num_rows_padded,
    BLOCK_SIZE: tl.constexpr,
    NUM_GROUPS: tl.constexpr,
    NUM_COLUMNS: tl.constexpr,
    GROUPS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """`out[g, row, j] = table[g][row, first_col + j]`, `first_col = max((seq_len - 1) // BLOCK_SIZE, 0)`.

    Looked up by batch row in the gathered tables: padded rows have no slot, but zero rows (the null block).
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    length = tl.load(seq_lens + row, mask=row < num_rows_padded, other=1).to(tl.int64)
    first = tl.maximum((length - 1) // BLOCK_SIZE, 0)
    group = tl.arange(0, GROUPS)
    tables = tl.load(table_ptrs + group, mask=group < NUM_GROUPS, other=0).to(tl.pointer_type(tl.int32))
    j = tl.arange(0, COLUMNS)
    mask = (
        (group < NUM_GROUPS)[:, None, None] & (row < num_rows_padded)[None, :, None] & (j < NUM_COLUMNS)[None, None, :]
    )
    column = first[None, :, None] + j[None, None, :]
    blocks = tl.load(tables[:, None, None] + row[None, :, None] * table_row_stride + column, mask=mask)
    target = group[:, None, None] * out_group_stride + row[None, :, None] * out_row_stride + j[None, None, :]
    tl.store(out + target, blocks, mask=mask)
