"""Staged block-table writes and the gather as Triton kernels, many writes or rows per program. Twin of `tables`."""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.base.device import Array
from stalerow.kernels.base.jit import max_of
from stalerow.kernels.base.memory import BlockTables

MAX_ITEMS = 64
MAX_COLUMNS = 64
"""Bounds of a program's tile: (writes or gathered rows) x columns."""
HOST_ITEMS, HOST_COLUMNS = 16, 16
"""The tile on the host, whatever there is to do: every other tile is another compilation."""


@triton.jit(do_not_specialize=["num_writes"])
def apply_writes_kernel(
    table_ptrs,
    row_stride: tl.int64,
    group_ids,
    slots,
    starts,
    cu_lens,
    contents,
    num_writes,
    max_blocks,
    WRITES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """`table[group][slot, start : start + len] = contents[cu_start:cu_end]`, `WRITES` writes per program."""
    write = tl.program_id(0).to(tl.int64) * WRITES + tl.arange(0, WRITES)
    live = write < num_writes
    table = tl.load(table_ptrs + tl.load(group_ids + write, mask=live, other=0), mask=live, other=0)
    slot = tl.load(slots + write, mask=live, other=0).to(tl.int64)
    start = tl.load(starts + write, mask=live, other=0).to(tl.int64)
    begin = tl.load(cu_lens + write - 1, mask=live & (write > 0), other=0).to(tl.int64)
    length = tl.load(cu_lens + write, mask=live, other=0).to(tl.int64) - begin
    row = table.to(tl.pointer_type(tl.int32)) + slot * row_stride
    for first in range(0, max_of(length), COLUMNS):
        i = tl.arange(0, COLUMNS).to(tl.int64) + first
        column = start[:, None] + i[None, :]
        mask = (i[None, :] < length[:, None]) & (column < max_blocks)
        values = tl.load(contents + begin[:, None] + i[None, :], mask=mask)
        tl.store(row[:, None] + column, values, mask=mask)


@triton.jit(do_not_specialize=["num_rows", "num_rows_padded", "num_groups"])
def gather_kernel(
    persistent_ptrs,
    gathered_ptrs,
    row_stride: tl.int64,
    num_blocks,
    num_blocks_stride: tl.int64,
    idx_mapping,
    num_rows,
    num_rows_padded,
    max_blocks,
    num_groups,
    ITEMS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """`gathered[g][row, :nb] = persistent[g][slot, :nb]`; `gathered[g][row, :] = 0` for padded rows.

    A program takes `ITEMS` (group, row) pairs; columns from `nb` on keep what is there.
    """
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    valid = item < num_groups * num_rows_padded
    group = item // num_rows_padded
    row = item % num_rows_padded
    slot = tl.load(idx_mapping + row, mask=valid & (row < num_rows), other=-1).to(tl.int64)
    count = tl.load(num_blocks + group * num_blocks_stride + slot, mask=valid & (slot >= 0), other=0).to(tl.int64)
    end = tl.minimum(tl.where(row >= num_rows, max_blocks, count), max_blocks)
    end = tl.where(valid, end, 0)
    source = tl.load(persistent_ptrs + group, mask=valid, other=0).to(tl.pointer_type(tl.int32))
    target = tl.load(gathered_ptrs + group, mask=valid, other=0).to(tl.pointer_type(tl.int32))
    source += slot * row_stride
    target += row * row_stride
    for first in range(0, max_of(end), COLUMNS):
        column = tl.arange(0, COLUMNS).to(tl.int64) + first
        mask = column[None, :] < end[:, None]
        blocks = tl.load(source[:, None] + column[None, :], mask=mask & (slot >= 0)[:, None], other=0)
        tl.store(target[:, None] + column[None, :], blocks, mask=mask)


def apply_writes(
    tables: BlockTables,
    group_ids: Array,
    slots: Array,
    starts: Array,
    cu_lens: Array,
    contents: Array,
    n: int,
) -> None:
    """See `tables.apply_writes`; writes past the end of a row are masked off."""
    if n == 0:
        return
    writes, columns = _tile(tables, n)
    apply_writes_kernel[(triton.cdiv(n, writes),)](
        tables.persistent_ptrs,
        tables.row_stride,
        group_ids,
        slots,
        starts,
        cu_lens,
        contents,
        n,
        tables.max_blocks,
        WRITES=writes,
        COLUMNS=columns,
    )


def set_num_blocks(tables: BlockTables, values: Array) -> None:
    """See `tables.set_num_blocks`."""
    tables.num_blocks.copy_(values)


def gather(
    tables: BlockTables,
    idx_mapping: Array,
    num_rows: int,
    num_rows_padded: int,
    zero_padding: bool = True,
) -> None:
    """See `tables.gather`."""
    padded = num_rows_padded if zero_padding else num_rows
    groups = len(tables.persistent)
    if padded == 0:
        return
    items, columns = _tile(tables, groups * padded)
    gather_kernel[(triton.cdiv(groups * padded, items),)](
        tables.persistent_ptrs,
        tables.gathered_ptrs,
        tables.row_stride,
        tables.num_blocks,
        tables.num_blocks.stride(0),
        idx_mapping,
        num_rows,
        padded,
        tables.max_blocks,
        num_groups=groups,
        ITEMS=items,
        COLUMNS=columns,
    )


def _tile(tables: BlockTables, items: int) -> tuple[int, int]:
    """Items and columns of a program's tile."""
    if not tables.num_blocks.is_cuda:
        return HOST_ITEMS, HOST_COLUMNS
    return min(triton.next_power_of_2(items), MAX_ITEMS), min(triton.next_power_of_2(tables.max_blocks), MAX_COLUMNS)
