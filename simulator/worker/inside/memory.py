"""The pages of a worker's cache, in place, as the judge and the stand-in forward see them."""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.memory import NULL_POISON, POISON
from stalerow.simulator.schedule.values import Schedule

OF_A_DUMMY = 0x5A
"""What every byte of a block is after the row of a dummy run has been written to it."""


class Memory:
    """The pages of the worker's cache: `array` is uint8 [pool_bytes] in place, laid out as `Layout` says."""

    def __init__(self, schedule: Schedule, array: np.ndarray) -> None:
        self.layout, self.array = schedule.layout, array
        self.pages = array.reshape(self.layout.layers, self.layout.num_blocks, self.layout.page_bytes)
        self.clear()
        self.journal = None  # nobody asks the stand-in forward what it stores

    def clear(self) -> None:
        self.pages[:] = POISON
        self.pages[:, 0] = NULL_POISON
