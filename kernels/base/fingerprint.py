"""A 64-bit fingerprint of memory that a host and a GPU compute alike, whatever the order of the sums.

`sum(value * coefficient(place))`, wrapping, where a place is named by the array's own shape: a page by (layer, block,
byte), a slot's number by (array, slot, position). The coefficients are odd and pseudo-random, so that contents which
differ anywhere give equal fingerprints with odds of about 2**-56. Values are bytes or int32, never negative by intent.
Universes that share one pool (`universes`) get the fingerprint that each would have alone.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.patterns import mix64, signed


@lru_cache(maxsize=64)
def coefficients(first: int, second: int, third: int) -> HostArray:
    """int64 [first, second, third], odd. A place's value does not depend on the sizes."""
    i, j, k = np.ogrid[:first, :second, :third]
    places = (i.astype(np.uint64) << np.uint64(48)) | (j.astype(np.uint64) << np.uint64(24)) | k.astype(np.uint64)
    made: HostArray = (mix64(places + np.uint64(1)) | np.uint64(1)).view(np.int64)
    made.flags.writeable = False
    return made


def pages_fingerprint(pages: HostArray) -> int:
    """Of `pages`, uint8 [layers, num_blocks, page_bytes], without the null block.

    What wrong launches write to the null block at once is in no defined order on a GPU.
    """
    return int((pages[:, 1:] * coefficients(*pages.shape)[:, 1:]).sum())


class PagesFingerprint:
    """`pages_fingerprint` of one pool again and again: only blocks that have changed in between are looked at."""

    def __init__(self, layout: Layout) -> None:
        self._coefficients = coefficients(layout.layers, layout.num_blocks, layout.page_bytes)
        self._parts = np.zeros(layout.num_blocks, dtype=np.int64)
        self._sum = 0

    def of(self, pages: HostArray, changed: Collection[int]) -> int:
        """`changed`: blocks that may differ from the last time, all of them the first time."""
        blocks = np.fromiter(changed, dtype=np.int64, count=len(changed))
        blocks = blocks[blocks > 0]
        if blocks.size:
            parts = (pages[:, blocks] * self._coefficients[:, blocks]).sum(axis=(0, 2))
            self._sum = signed(self._sum + int((parts - self._parts[blocks]).sum()))
            self._parts[blocks] = parts
        return self._sum


def values_fingerprint(values: HostArray, array: int) -> int:
    """Of per-slot values, int [slots] or [slots, positions]; `array` tells arrays of one shape apart."""
    table = values.reshape(len(values), -1)
    return int((table * coefficients(array + 1, *table.shape)[array]).sum())
