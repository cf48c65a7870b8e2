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

from stalerow.kernels.base.jit import cumulative_sum, device_function, load_kept, max_of, sum_four

RECORD = tl.constexpr(8)
"""int64 numbers of a state's record (`copy_tiles.state_records`)."""


@device_function
def copy_moves(
    moves,
    table_row,
    source,
    target,
    bias,
    turn,
    all_rows,
    tiles,
    num_tiles,
    draws,
    draw_from,
    states,
    table_row_stride,
    CHANNELS_FIRST: tl.constexpr,
    TILE_STEPS: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """This program's share of the copies of all rows `r` with `moves[r]`; all are vectors over rows.

    With `row = table[table_row[r]]` of a state's group and `block(i)` the state's data in page `i`:

    * temporal: `block(row[target[r]])[:] = block(row[source[r] + bias[r]])[:]`;
    * conv: `block(row[target[r]])[: width - bias[r]] = block(row[source[r]])[bias[r]:width]`.

    The tiles (`tiles_of`) of all moving rows stand in one line. Where they are few, the programs take its steps in
    turn: this one number `turn`, counted from the first, and every `num_programs`-th after it. Returns the first
    number it has not taken, counted from the line's end.

    From `draw_from` tiles a program on, if these are `all_rows` of the launch, a program takes a tile at a time and
    draws the number of its next one from the counter `draws`. Programs that draw stay side by side in memory however
    their speeds differ, which measured faster than fixed turns; a draw is too dear for single steps. Every tile taken
    means one draw, so whoever draws last knows it, and sets the counter back to 0 for the next launch.
    """
    # Narrow, because they stay in registers while tiles are copied; a line is far shorter than 2**31 steps.
    table_row = table_row.to(tl.int32)
    source = source.to(tl.int32)
    target = target.to(tl.int32)
    bias = bias.to(tl.int32)
    rank = cumulative_sum(moves.to(tl.int32))
    programs = tl.num_programs(0)
    steps = num_tiles * TILE_STEPS
    turns = max_of(rank) * num_tiles
    drawn = all_rows & (turns >= draw_from * programs)
    taken = tl.where(drawn, TILE_STEPS, 1)
    turns = turns * (TILE_STEPS // taken)
    nth = 0
    end = 0
    row = tl.cast(0, tl.int64)
    from_column = row
    to_column = row
    drafts = row
    while turn < turns:
        following = turn + programs
        if drawn:
            before = tl.atomic_add(draws, 1, sem="relaxed")
            following = before + programs
            if before == turns - 1:
                tl.store(draws, 0)
        begin = turn * taken
        if begin >= end:
            nth = begin // steps + 1
            end = nth * steps
            chosen = moves & (rank == nth)
            chosen_row, chosen_source, chosen_target, chosen_bias = sum_four(
                tl.where(chosen, table_row, 0),
                tl.where(chosen, source, 0),
                tl.where(chosen, target, 0),
                tl.where(chosen, bias, 0),
            )
            row = chosen_row.to(tl.int64)
            from_column = chosen_source.to(tl.int64)
            to_column = chosen_target.to(tl.int64)
            drafts = chosen_bias.to(tl.int64)
        step = begin - end + steps
        entry = tiles + step // TILE_STEPS * 2 if TILE_STEPS > 1 else tiles + step * 2
        first = load_kept(entry + 1)
        if TILE_STEPS > 1:
            first = first * TILE_STEPS + step % TILE_STEPS
        _copy_steps(
            load_kept(entry),
            first.to(tl.int64),
            taken,
            row,
            from_column,
            to_column,
            drafts,
            states,
            table_row_stride,
            CHANNELS_FIRST,
            COPY_BLOCK,
            WIDTH_BLOCK,
            ROW_BLOCK,
        )
        turn = following
    return turn - turns


@device_function
def _copy_steps(
    state,
    first,
    count,
    table_row,
    source,
    target,
    bias,
    states,
    table_row_stride,
    CHANNELS_FIRST: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    WIDTH_BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    """Steps number `first` to `first + count - 1` of one state of one row."""
    record = states + state.to(tl.int64) * RECORD
    base = load_kept(record)
    stride = load_kept(record + 1)
    row_bytes = load_kept(record + 2)
    width = load_kept(record + 3)
    elem = load_kept(record + 4)
    channel_stride = load_kept(record + 5)
    table = load_kept(record + 6).to(tl.pointer_type(tl.int32))
    blocks = table + table_row * table_row_stride
    # A temporal state has width 0: the draft selects the column, not a row of the window.
    src_block = load_kept(blocks + source + tl.where(width == 0, bias, 0)).to(tl.int64)
    dst_block = load_kept(blocks + target).to(tl.int64)
    src = base + src_block * stride
    dst = base + dst_block * stride

    in_place = src_block == dst_block
    straight = (width == 0) | (bias == 0)
    if not CHANNELS_FIRST:
        straight = straight | (src_block != dst_block)
    if straight:
        # One range of bytes; a block copied onto itself is left alone.
        kept = tl.maximum(tl.where(width == 0, 1, width - bias), 0)
        skipped = tl.where(width == 0, 0, bias)
        size = tl.where(in_place, 0, kept * row_bytes)
        _copy_bytes(src + skipped * row_bytes, dst, size, first, count, COPY_BLOCK)
    else:
        token_stride = elem if CHANNELS_FIRST else row_bytes
        row_tile = COPY_BLOCK * 8 // WIDTH_BLOCK
        begin = first * row_tile
        _copy_window(
            src + bias * token_stride,
            dst,
            width - bias,
            begin,
            tl.minimum(begin + count * row_tile, row_bytes),
            elem,
            token_stride,
            channel_stride,
            CHANNELS_FIRST,
            ROW_BLOCK,
            WIDTH_BLOCK,
        )


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

    Byte `j` of a token is at `j`, or with `CHANNELS_FIRST` at `j // elem * channel_stride + j % elem`. In units of
    8 bytes where tokens are rows, of 2 where channels are, if everything is aligned to them; else byte by byte.
    `UNITS` units of every token go at once.
    """
    # A window is far smaller than 2 GiB, and 32-bit offsets are quicker to divide and take half the registers.
    begin = begin.to(tl.int32)
    end = end.to(tl.int32)
    unit = tl.arange(0, UNITS)
    if CHANNELS_FIRST:
        elem = elem.to(tl.int32)
        gap = channel_stride.to(tl.int32) - elem
        if ((src | dst | token_stride | channel_stride) & 1) == 0:
            for at in range(begin, end, UNITS * 2):
                j = at + unit * 2
                _move(src, dst, j // elem * gap + j, j < end, num_tokens, token_stride, tl.uint16, True, WIDTH_BLOCK)
        else:
            for at in range(begin, end, UNITS):
                j = at + unit
                _move(src, dst, j // elem * gap + j, j < end, num_tokens, token_stride, tl.uint8, True, WIDTH_BLOCK)
    else:
        if ((src | dst | token_stride) & 7) == 0:
            for at in range(begin, end, UNITS * 8):
                j = at + unit * 8
                _move(src, dst, j, j < end, num_tokens, token_stride, tl.uint64, False, WIDTH_BLOCK)
        else:
            for at in range(begin, end, UNITS):
                j = at + unit
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
    token = tl.arange(0, WIDTH_BLOCK)
    token_stride = token_stride.to(tl.int32)
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
def _copy_bytes(src, dst, size, first, count, COPY_BLOCK: tl.constexpr):
    """Some steps of `dst[:size] = src[:size]`; the ranges are disjoint.

    As wide as the addresses allow: a misaligned access is an error on some GPUs.
    """
    apart = src ^ dst
    if (apart & 15) == 0:
        _copy_words(src, dst, size, first, count, 16, COPY_BLOCK)
    else:
        if (apart & 7) == 0:
            _copy_words(src, dst, size, first, count, 8, COPY_BLOCK)
        else:
            begin = first * (COPY_BLOCK * 8)
            for at in range(begin, tl.minimum(begin + count * (COPY_BLOCK * 8), size), COPY_BLOCK):
                i = at + tl.arange(0, COPY_BLOCK).to(tl.int64)
                data = tl.load((src + i).to(tl.pointer_type(tl.uint8)), mask=i < size)
                tl.store((dst + i).to(tl.pointer_type(tl.uint8)), data, mask=i < size)


@device_function
def _copy_words(src, dst, size, first, count, ALIGN: tl.constexpr, COPY_BLOCK: tl.constexpr):
    """The same where both addresses have one remainder modulo `ALIGN`, 8 or 16: 64 or 128 bits a lane.

    Words start at the first multiple of `ALIGN`; step 0 adds the bytes at either end.
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
    for step in range(first, first + count):
        i = step * COPY_BLOCK + tl.arange(0, COPY_BLOCK).to(tl.int64)
        tl.store(dst_words + i, tl.load(src_words + i, mask=i < words), mask=i < words)
