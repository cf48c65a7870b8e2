"""Moving the states of the rows that move between block-table columns: the Triton device functions.

Twin of `copy`. `precopy_triton` and `postprocess_triton` decide, as vectors over the batch rows, which rows move
and from where to where; `copy_moves` shares the bytes of all of them out among however many programs there are.
A launch therefore has as many programs as the GPU runs well with, not one per (row, state, tile), and one in
which no row moves ends after the decision, which every program makes for itself.

Block ids are widened before they meet a stride, and addresses are int64 throughout: `block_id * stride` passes
2**31 on real caches, and addresses at or above 2**63 are negative numbers here.
"""

from __future__ import annotations

import triton.language as tl

from stalerow.kernels.jit import cumulative_sum, device_function, max_of, sum_four, sum_two


@device_function
def copy_moves(
    moves,
    table_row,
    source,
    target,
    bias,
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
    num_states,
    CHANNELS_FIRST: tl.constexpr,
    STATES: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
):
    """This program's share of the copies of all rows `r` with `moves[r]`; int64 [rows] but for the mask `moves`.

    With `row = table[table_row[r]]` of a state's group and `block(i)` the state's data in page `i`:

    * temporal: `block(row[target[r]])[:] = block(row[source[r] + bias[r]])[:]`;
    * conv: `block(row[target[r]])[: width - bias[r]] = block(row[source[r]])[bias[r]:width]`.

    The tiles of all copies (`COPY_BLOCK` 8-byte words each) stand in one line, rows first, then states. Program
    `p` of `n` takes those from `total * p // n` to `total * (p + 1) // n`: everyone the same number, as few
    copies as can be, and in the order of the reference when programs run one after the other. `STATES` covers
    the states, `WIDTH_BLOCK` a window's rows.
    """
    every = tl.arange(0, STATES)
    real = every < num_states
    width = tl.load(state_conv_widths + every, mask=real, other=0)
    inner = tl.load(state_inner_sizes + every, mask=real, other=0)
    channels = tl.load(state_dim_row_count + every, mask=real, other=0)
    elem = tl.load(state_elem_sizes + every, mask=real, other=0)
    tiles = _num_tiles(width, tl.maximum(inner, channels) * elem, COPY_BLOCK, WIDTH_BLOCK)
    ends = cumulative_sum(tiles)
    rank = cumulative_sum(moves.to(tl.int32))

    tiles_per_row = max_of(ends)
    total = tiles_per_row * max_of(rank)
    program = tl.program_id(0).to(tl.int64)
    tile = total * program // tl.num_programs(0)
    last = total * (program + 1) // tl.num_programs(0)
    while tile < last:
        nth = tile // tiles_per_row
        chosen = moves & (rank == nth + 1)
        row, from_column, to_column, drafts = sum_four(
            tl.where(chosen, table_row, 0),
            tl.where(chosen, source, 0),
            tl.where(chosen, target, 0),
            tl.where(chosen, bias, 0),
        )
        within_row = tile - nth * tiles_per_row
        passed = ends <= within_row
        state, tiles_passed = sum_two(passed.to(tl.int64), tl.where(passed, tiles, 0))
        first = within_row - tiles_passed
        copied = _copy_state(
            state,
            row,
            from_column,
            to_column,
            drafts,
            first,
            first + last - tile,
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
            CHANNELS_FIRST,
            COPY_BLOCK,
            WIDTH_BLOCK,
        )
        tile += copied


@device_function
def _num_tiles(width, row_bytes, COPY_BLOCK: tl.constexpr, WIDTH_BLOCK: tl.constexpr):
    """Tiles of a state. A tile of a window is as many bytes of each of its rows as fit `WIDTH_BLOCK` times."""
    tile_bytes = tl.where(width == 0, COPY_BLOCK * 8, COPY_BLOCK * 8 // WIDTH_BLOCK)
    return (row_bytes + tile_bytes - 1) // tile_bytes


@device_function
def _copy_state(
    state,
    table_row,
    source,
    target,
    bias,
    first,
    last,
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
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
):
    """Tiles `first` to `last` of one state of one row, or to its end; returns how many tiles that was."""
    base = tl.load(state_base_addrs + state)
    stride = tl.load(state_block_strides + state)
    elem = tl.load(state_elem_sizes + state).to(tl.int64)
    inner = tl.load(state_inner_sizes + state)
    channels = tl.load(state_dim_row_count + state)
    width = tl.load(state_conv_widths + state).to(tl.int64)
    group = tl.load(state_group_indices + state)
    table = tl.load(table_ptrs + group).to(tl.pointer_type(tl.int32))
    blocks = table + table_row * table_row_stride
    # A temporal state has width 0: the draft selects the column, not a row of the window.
    src_block = tl.load(blocks + source + tl.where(width == 0, bias, 0)).to(tl.int64)
    dst_block = tl.load(blocks + target).to(tl.int64)
    src = base + src_block * stride
    dst = base + dst_block * stride
    row_bytes = tl.maximum(inner, channels) * elem
    last = tl.minimum(last, _num_tiles(width, row_bytes, COPY_BLOCK, WIDTH_BLOCK))

    in_place = src_block == dst_block
    straight = (width == 0) | (bias == 0)
    if not CHANNELS_FIRST:
        straight = straight | (src_block != dst_block)
    if straight:
        # One range of bytes; a block copied onto itself is left alone.
        kept = tl.maximum(tl.where(width == 0, 1, width - bias), 0)
        skipped = tl.where(width == 0, 0, bias)
        size = tl.where(in_place, 0, kept * row_bytes)
        _copy_bytes(src + skipped * row_bytes, dst, size, first, last, COPY_BLOCK)
    else:
        token_stride = row_bytes
        channel_stride = row_bytes * 0
        if CHANNELS_FIRST:
            token_stride = elem
            channel_stride = tl.load(state_dim_row_stride + state)
        row_tile = COPY_BLOCK * 8 // WIDTH_BLOCK
        _copy_window(
            src + bias * token_stride,
            dst,
            width - bias,
            first * row_tile,
            tl.minimum(last * row_tile, row_bytes),
            elem,
            token_stride,
            channel_stride,
            CHANNELS_FIRST,
            COPY_BLOCK // WIDTH_BLOCK,
            WIDTH_BLOCK,
        )
    return last - first


@device_function
def _copy_window(
    src,
    dst,
    num_tokens,
    begin,
    end,
    elem,
    token_stride,
    channel_stride,
    CHANNELS_FIRST: tl.constexpr,
    UNITS: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
):
    """`dst[token, j] = src[token, j]` for all tokens of a window and the bytes `begin <= j < end` of each.

    In units of 8 bytes where tokens are rows, of 2 where channels are, if everything is aligned to them; else
    byte by byte. `UNITS` units of every token go at once.
    """
    if CHANNELS_FIRST:
        if ((src | dst | token_stride | channel_stride) & 1) == 0:
            for at in range(begin, end, UNITS * 2):
                j = at + tl.arange(0, UNITS).to(tl.int64) * 2
                # 32-bit division: a token's bytes fit, and 64-bit division is slow.
                channel = j.to(tl.int32) // elem.to(tl.int32)
                offset = channel.to(tl.int64) * (channel_stride - elem) + j
                _move(src, dst, offset, j < end, num_tokens, token_stride, tl.uint16, True, WIDTH_BLOCK)
        else:
            for at in range(begin, end, UNITS):
                j = at + tl.arange(0, UNITS).to(tl.int64)
                channel = j.to(tl.int32) // elem.to(tl.int32)
                offset = channel.to(tl.int64) * (channel_stride - elem) + j
                _move(src, dst, offset, j < end, num_tokens, token_stride, tl.uint8, True, WIDTH_BLOCK)
    else:
        if ((src | dst | token_stride) & 7) == 0:
            for at in range(begin, end, UNITS * 8):
                j = at + tl.arange(0, UNITS).to(tl.int64) * 8
                _move(src, dst, j, j < end, num_tokens, token_stride, tl.uint64, False, WIDTH_BLOCK)
        else:
            for at in range(begin, end, UNITS):
                j = at + tl.arange(0, UNITS).to(tl.int64)
                _move(src, dst, j, j < end, num_tokens, token_stride, tl.uint8, False, WIDTH_BLOCK)


@device_function
def _move(
    src,
    dst,
    offset,
    inside,
    num_tokens,
    token_stride,
    UNIT: tl.constexpr,
    TOKENS_LAST: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
):
    """Units of one chunk: at `offset` in every token. `TOKENS_LAST` where a token's units lie apart.

    Source and destination may be the same window, shifted: all units are loaded before the barrier and stored
    after it, and chunks share no bytes, so the copy is memmove-safe in whatever order the lanes run.
    """
    token = tl.arange(0, WIDTH_BLOCK).to(tl.int64)
    if TOKENS_LAST:
        lanes = offset[:, None] + (token * token_stride)[None, :]
        mask = inside[:, None] & (token < num_tokens)[None, :]
    else:
        lanes = (token * token_stride)[:, None] + offset[None, :]
        mask = (token < num_tokens)[:, None] & inside[None, :]
    data = tl.load((src + lanes).to(tl.pointer_type(UNIT)), mask=mask)
    tl.debug_barrier()
    tl.store((dst + lanes).to(tl.pointer_type(UNIT)), data, mask=mask)


@device_function
def _copy_bytes(src, dst, size, first, last, COPY_BLOCK: tl.constexpr):
    """Tiles `first` to `last` of `dst[:size] = src[:size]`; the ranges are disjoint.

    As wide as the addresses allow: a misaligned access is an error on some GPUs.
    """
    apart = src ^ dst
    if (apart & 15) == 0:
        _copy_words(src, dst, size, first, last, 16, COPY_BLOCK)
    else:
        if (apart & 7) == 0:
            _copy_words(src, dst, size, first, last, 8, COPY_BLOCK)
        else:
            end = tl.minimum(last * (COPY_BLOCK * 8), size)
            for at in range(first * (COPY_BLOCK * 8), end, COPY_BLOCK):
                i = at + tl.arange(0, COPY_BLOCK).to(tl.int64)
                data = tl.load((src + i).to(tl.pointer_type(tl.uint8)), mask=i < end)
                tl.store((dst + i).to(tl.pointer_type(tl.uint8)), data, mask=i < end)


@device_function
def _copy_words(src, dst, size, first, last, ALIGN: tl.constexpr, COPY_BLOCK: tl.constexpr):
    """The same where both addresses have one remainder modulo `ALIGN`, 8 or 16: 64 or 128 bits a lane.

    Words start at the first multiple of `ALIGN`; tile 0 adds the bytes at either end.
    """
    head = tl.minimum((-dst) & (ALIGN - 1), size)
    words = (size - head) // ALIGN * (ALIGN // 8)
    if (first == 0) & (words * 8 != size):
        edge = tl.arange(0, 2 * ALIGN).to(tl.int64)
        offset = tl.where(edge < ALIGN, edge, head + words * 8 + edge - ALIGN)
        mask = tl.where(edge < ALIGN, edge < head, offset < size)
        data = tl.load((src + offset).to(tl.pointer_type(tl.uint8)), mask=mask)
        tl.store((dst + offset).to(tl.pointer_type(tl.uint8)), data, mask=mask)
    src_words = tl.multiple_of((src + head).to(tl.pointer_type(tl.uint64)), ALIGN)
    dst_words = tl.multiple_of((dst + head).to(tl.pointer_type(tl.uint64)), ALIGN)
    lane = tl.arange(0, COPY_BLOCK).to(tl.int64)
    for tile in range(first, last):
        i = tile * COPY_BLOCK + lane
        tl.store(dst_words + i, tl.load(src_words + i, mask=i < words), mask=i < words)
