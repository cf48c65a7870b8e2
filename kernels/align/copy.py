"""Moving one state tensor of one request from one block-table column to another. Reference.

The shared body of `precopy` and `postprocess`: they decide which columns and how many accepted tokens, this
looks the blocks up in the bound tables and moves the bytes. Triton twin: `copy_triton`.
"""

from __future__ import annotations

from stalerow.kernels.base.binding import Binding, HostState
from stalerow.kernels.base.memory import OutOfBounds


def copy_state(binding: Binding, state: HostState, table_row: int, src_col: int, dst_col: int, bias: int) -> None:
    """Copy one state of the table row from `src_col` to `dst_col`, `bias` accepted drafts further on.

    With `row = copy_tables[state.group_index][table_row]` and `block(i)` the state's data in page `i`:

    * temporal: `block(row[dst_col])[:] = block(row[src_col + bias])[:]` (each draft has its own column);
    * conv: `block(row[dst_col])[: width - bias] = block(row[src_col])[bias:width]` (all drafts are in one
      window). Source and destination may be one block; the result is that of memmove.

    Page padding is never copied. Raises OutOfBounds for a column outside the table or a block outside the
    pool.
    """
    # A temporal state has width 0: the draft selects the column, not a row of the window.
    if state.conv_width == 0:
        source = _data_start(binding, state, table_row, src_col + bias)
        target = _data_start(binding, state, table_row, dst_col)
        pool = binding.pool.array
        pool[target : target + state.row_bytes] = pool[source : source + state.row_bytes]
        return

    source = _data_start(binding, state, table_row, src_col)
    target = _data_start(binding, state, table_row, dst_col)
    if bias < 0:
        raise OutOfBounds("conv window", table_row, bias, None, state.conv_width)
    kept = state.conv_width - bias
    if kept <= 0:
        return
    pool = binding.pool.array
    if binding.layout.conv_layout == "SD":
        begin = source + bias * state.row_bytes
        pool[target : target + kept * state.row_bytes] = pool[begin : begin + kept * state.row_bytes]
    else:
        size = state.conv_width * state.row_bytes
        channels = (state.dim, state.conv_width * state.elem_size)
        old = pool[source : source + size].reshape(channels)
        new = pool[target : target + size].reshape(channels)
        new[:, : kept * state.elem_size] = old[:, bias * state.elem_size :]


def _data_start(binding: Binding, state: HostState, table_row: int, column: int) -> int:
    """Byte offset in the pool of the state's data in the block that the table names."""
    table = binding.copy_tables[state.group_index]
    layout = binding.layout
    if not 0 <= column < binding.table_row_stride:
        raise OutOfBounds(f"block_table[{state.group_index}]", table_row, column, None, binding.table_row_stride)
    block = int(table.item(table_row, column))
    if not 0 <= block < layout.num_blocks:
        raise OutOfBounds(f"block_table[{state.group_index}]", table_row, column, block, layout.num_blocks)
    return state.base + block * layout.page_bytes
