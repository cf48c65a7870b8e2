"""Block-table operators: staged writes into the slot rows, and the gather of a step's batch. References.

Staged block ids come from the rank's host; the gathered rows feed the forward, the aligned indices and, in
the batch-row kernels, the state copies. Triton twins: `tables_triton`.
"""

from __future__ import annotations

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.memory import BlockTables, OutOfBounds


def apply_writes(
    tables: BlockTables,
    group_ids: HostArray,
    slots: HostArray,
    starts: HostArray,
    cu_lens: HostArray,
    contents: HostArray,
    n: int,
) -> None:
    """`persistent[group][slot, start : start + len] = contents[cu_start:cu_end]` for each of `n` writes.

    All int32 [>= n] but `contents` [>= cu_lens[n - 1]]; `cu_lens` are inclusive sums of the lengths. Writes
    are disjoint. Raises OutOfBounds if a row would overflow, as the releases do on the host.
    """
    begin = 0
    for group, slot, start, end in zip(
        group_ids[:n].tolist(), slots[:n].tolist(), starts[:n].tolist(), cu_lens[:n].tolist()
    ):
        stop = start + end - begin
        if stop > tables.max_blocks:
            raise OutOfBounds(f"block_tables[{group}]", slot, stop - 1, None, tables.max_blocks)
        tables.persistent[group][slot, start:stop] = contents[begin:end]
        begin = end


def set_num_blocks(tables: BlockTables, values: HostArray) -> None:
    """`num_blocks[...] = values`, int32 [num_groups, max_reqs]."""
    tables.num_blocks[...] = values


def gather(
    tables: BlockTables,
    idx_mapping: HostArray,
    num_rows: int,
    num_rows_padded: int,
    zero_padding: bool = True,
) -> None:
    """`gathered[g][row, :nb] = persistent[g][slot, :nb]`, `nb = num_blocks[g, slot]`, for rows below `num_rows`.

    Columns past `nb` keep what an earlier batch left there. Rows `num_rows..num_rows_padded` become zero,
    over the full row, unless `zero_padding` is off. Rows whose slot is -1 are left alone.
    """
    slots = idx_mapping[:num_rows].tolist()
    counts = tables.num_blocks.tolist()
    for group, (source, target) in enumerate(zip(tables.persistent, tables.gathered)):
        for row, slot in enumerate(slots):
            if slot >= 0:
                nb = counts[group][slot]
                target[row, :nb] = source[slot, :nb]
        if zero_padding:
            target[num_rows:num_rows_padded] = 0
