"""Whole-page operators: zero or poison blocks, and copy-on-write block copies. References.

Block ids come from a step's scheduler output; a page is changed in every layer at once. Triton twins:
`blocks_triton`.
"""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.memory import OutOfBounds, Pool


def fill_blocks(pool: Pool, block_ids: HostArray, n: int, byte: int) -> None:
    """`pages[:, block_ids[:n], :] = byte`. `block_ids` int [>= n], -1 for none; raises OutOfBounds."""
    named = block_ids[:n]
    if (named == -1).any():
        named = named[named != -1]
    check_blocks(pool, "block_ids", named)
    pool.pages(pool.array)[:, named] = byte


def copy_blocks(pool: Pool, src: HostArray, dst: HostArray, n: int) -> None:
    """`pages[:, dst[:n], :] = pages[:, src[:n], :]`; every source is read before any target is written.

    int32 [>= n]; no target is named twice. Raises OutOfBounds.
    """
    check_blocks(pool, "src", src[:n])
    check_blocks(pool, "dst", dst[:n])
    pages = pool.pages(pool.array)
    pages[:, dst[:n]] = pages[:, src[:n]]


def check_blocks(pool: Pool, name: str, block_ids: HostArray) -> None:
    """Raise OutOfBounds for the first id outside the pool."""
    bad = np.flatnonzero((block_ids < 0) | (block_ids >= pool.layout.num_blocks))
    if bad.size:
        raise OutOfBounds(name, 0, int(bad[0]), int(block_ids[bad[0]]), pool.layout.num_blocks)
