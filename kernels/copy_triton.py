"""Moving one state tensor of one request between block-table columns: the Triton device function.

Twin of `copy`; `precopy_triton` and `postprocess_triton` call it once per (row, state, tile) program with the
arrays of a `Binding`. Block ids are widened before they meet a stride, and addresses are int64 throughout:
`block_id * stride` passes 2**31 on real caches, and addresses at or above 2**63 are negative numbers here.
"""

from __future__ import annotations

import triton.language as tl

from stalerow.kernels.jit import device_function


@device_function
def copy_state(
    state,
    table_row,
    src_col,
    dst_col,
    bias,
    tile,
    table_ptrs,
    table_row_stride,
    state_base_addrs,
    state_block_strides,
    state_elem_sizes,
    state_inner_sizes,
    state_conv_widths,
    state_group_indices,
    state_dim_row_count,
    state_dim_row_stride,
    CHANNELS_FIRST: tl.constexpr,
    TILES: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """With `row = table[table_row]` of the state's group and `block(i)` its data in page `i`:

    * temporal: `block(row[dst_col])[:] = block(row[src_col + bias])[:]`, split over `TILES` programs;
    * conv: `block(row[dst_col])[: width - bias] = block(row[src_col])[bias:width]`, by tile 0 alone.

    `COPY_BLOCK` is in 8-byte words, `WIDTH_BLOCK` covers a window's rows, `ROW_BLOCK` is bytes of a row at
    once.
    """
    base = tl.load(state_base_addrs + state)
    stride = tl.load(state_block_strides + state)
    elem = tl.load(state_elem_sizes + state).to(tl.int64)
    inner = tl.load(state_inner_sizes + state)
    width = tl.load(state_conv_widths + state).to(tl.int64)
    group = tl.load(state_group_indices + state)
    table = tl.load(table_ptrs + group).to(tl.pointer_type(tl.int32))
    row = table + table_row.to(tl.int64) * table_row_stride
    # A temporal state has width 0: the draft selects the column, not a row of the window.
    src_block = tl.load(row + src_col + tl.where(width == 0, bias, 0)).to(tl.int64)
    dst_block = tl.load(row + dst_col).to(tl.int64)
    src = base + src_block * stride
    dst = base + dst_block * stride
    if width == 0:
        _copy_bytes(src, dst, inner * elem, tile, TILES, COPY_BLOCK)
    else:
        if tile == 0:
            if CHANNELS_FIRST:
                row_bytes = tl.load(state_dim_row_count + state) * elem
                row_stride = tl.load(state_dim_row_stride + state)
                token_stride = elem
            else:
                row_bytes = inner * elem
                row_stride = elem
                token_stride = row_bytes
            _copy_window(
                src + bias * token_stride,
                dst,
                width - bias,
                row_bytes,
                elem,
                row_stride,
                token_stride,
                WIDTH_BLOCK,
                ROW_BLOCK,
            )


@device_function
def _copy_window(
    src,
    dst,
    num_tokens,
    row_bytes,
    elem,
    row_stride,
    token_stride,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """`dst[token, j] = src[token, j]` for all tokens of a window, `ROW_BLOCK` bytes `j` of every row at a time.

    Byte `j` of a token is at `j // elem * row_stride + j % elem`. Source and destination may be the same
    window, shifted: all bytes of a chunk are loaded before the barrier and stored after it, and chunks share
    no bytes, so the copy is memmove-safe in whatever order the lanes run. Bytes are copied one by one, so any
    alignment will do.
    """
    token = tl.arange(0, WIDTH_BLOCK).to(tl.int64)
    for first in range(0, row_bytes, ROW_BLOCK):
        j = tl.arange(0, ROW_BLOCK).to(tl.int64) + first
        offset = token[:, None] * token_stride + (j // elem * row_stride + j % elem)[None, :]
        mask = (token < num_tokens)[:, None] & (j < row_bytes)[None, :]
        data = tl.load((src + offset).to(tl.pointer_type(tl.uint8)), mask=mask)
        tl.debug_barrier()
        tl.store((dst + offset).to(tl.pointer_type(tl.uint8)), data, mask=mask)


@device_function
def _copy_bytes(src, dst, size, tile, TILES: tl.constexpr, COPY_BLOCK: tl.constexpr):
    """This tile's share of `dst[:size] = src[:size]`; the ranges are disjoint or identical.

    Where both addresses have the same remainder modulo 8, the aligned middle goes word by word and tile 0
    adds the up to 7 bytes at either end; else everything goes byte by byte, because a misaligned 64-bit
    access is an error on some GPUs.
    """
    lane = tl.arange(0, COPY_BLOCK).to(tl.int64)
    if ((src ^ dst) & 7) == 0:
        head = tl.minimum((-dst) & 7, size)
        words = (size - head) // 8
        if (tile == 0) & (words * 8 != size):
            edge = tl.arange(0, 16).to(tl.int64)
            offset = tl.where(edge < 8, edge, head + words * 8 + edge - 8)
            mask = tl.where(edge < 8, edge < head, offset < size)
            data = tl.load((src + offset).to(tl.pointer_type(tl.uint8)), mask=mask)
            tl.store((dst + offset).to(tl.pointer_type(tl.uint8)), data, mask=mask)
        share = words
        if TILES > 1:
            share = (words + TILES - 1) // TILES
            share = (share + COPY_BLOCK - 1) // COPY_BLOCK * COPY_BLOCK
        end = tl.minimum((tile + 1) * share, words)
        src_words = (src + head).to(tl.pointer_type(tl.uint64))
        dst_words = (dst + head).to(tl.pointer_type(tl.uint64))
        for first in range(tile * share, end, COPY_BLOCK):
            i = first + lane
            tl.store(dst_words + i, tl.load(src_words + i, mask=i < end), mask=i < end)
    else:
        share = size
        if TILES > 1:
            share = (size + TILES - 1) // TILES
        end = tl.minimum((tile + 1) * share, size)
        src_bytes = src.to(tl.pointer_type(tl.uint8))
        dst_bytes = dst.to(tl.pointer_type(tl.uint8))
        for first in range(tile * share, end, COPY_BLOCK):
            i = first + lane
            tl.store(dst_bytes + i, tl.load(src_bytes + i, mask=i < end), mask=i < end)
