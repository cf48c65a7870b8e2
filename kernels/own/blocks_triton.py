"""Whole-page fills and copies as Triton kernels: a program takes some pages and a range of their bytes.

Twin of `blocks`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from stalerow.kernels.base.device import Array
from stalerow.kernels.base.memory import Pool

PAGES = 16
MAX_BYTES = 1024
"""Bounds of a program's tile: (layer, block) pages x bytes."""
HOST_BYTES = 64
"""The bytes of a tile on the host, whatever a page's size: every other tile is another compilation."""


@triton.jit(do_not_specialize=["n", "byte", "layers"])
def pages_kernel(
    pool,
    src_blocks,
    dst_blocks,
    n,
    byte,
    base_offset: tl.int64,
    page_bytes: tl.int64,
    num_blocks: tl.int64,
    layers,
    COPY: tl.constexpr,
    PAGES: tl.constexpr,
    BYTES: tl.constexpr,
):
    """`pages[:, dst[:n]] = pages[:, src[:n]]` if `COPY`, else `pages[:, dst[:n]] = byte`; nothing for a `dst` of -1."""
    item = tl.program_id(0).to(tl.int64) * PAGES + tl.arange(0, PAGES)
    live = item < layers * n
    layer_start = item // n * num_blocks
    block = tl.load(dst_blocks + item % n, mask=live, other=-1)
    live = live & (block >= 0)
    dst = layer_start + block
    j = tl.program_id(1).to(tl.int64) * BYTES + tl.arange(0, BYTES)
    mask = live[:, None] & (j < page_bytes)[None, :]
    if COPY:
        src = layer_start + tl.load(src_blocks + item % n, mask=live, other=0)
        values = tl.load(pool + base_offset + src[:, None] * page_bytes + j[None, :], mask=mask)
    else:
        values = (tl.full((PAGES, BYTES), 0, tl.int32) + byte).to(tl.uint8)
    tl.store(pool + base_offset + dst[:, None] * page_bytes + j[None, :], values, mask=mask)


def fill_blocks(pool: Pool, block_ids: Array, n: int, byte: int) -> None:
    """See `blocks.fill_blocks`; block ids other than -1 are trusted."""
    _launch(pool, None, block_ids, n, byte)


def copy_blocks(pool: Pool, src: Array, dst: Array, n: int) -> None:
    """See `blocks.copy_blocks`; block ids are trusted."""
    _launch(pool, src, dst, n, 0)


def _launch(pool: Pool, src: Array | None, dst: Array, n: int, byte: int) -> None:
    if n == 0:
        return
    layout = pool.layout
    size = min(triton.next_power_of_2(layout.page_bytes), MAX_BYTES) if pool.array.is_cuda else HOST_BYTES
    grid = (triton.cdiv(layout.layers * n, PAGES), triton.cdiv(layout.page_bytes, size))
    pages_kernel[grid](
        pool.array,
        src,
        dst,
        n,
        byte,
        layout.base_offset,
        layout.page_bytes,
        layout.num_blocks,
        layers=layout.layers,
        COPY=src is not None,
        PAGES=PAGES,
        BYTES=size,
    )
