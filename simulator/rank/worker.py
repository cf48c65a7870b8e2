"""What a policy may use of the rank that asks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from stalerow.kernels.align.kernels import AlignKernels
from stalerow.kernels.base.device import Backend
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import BlockTables, Pool
from stalerow.kernels.own.operators import Operators
from stalerow.simulator.rank.operations import Operation


class Worker(Protocol):
    """`max_reqs`: slots, and rows of its tables; `max_blocks`: columns of a row."""

    layout: Layout
    backend: Backend
    align: AlignKernels
    ops: Operators
    pool: Pool
    tables: BlockTables
    max_reqs: int
    max_blocks: int

    def device(self, values: Sequence[int] | np.ndarray, dtype: str) -> Any:
        """A new device array holding `values`."""

    def push(self, operation: Operation) -> None:
        """Enqueue on the main stream."""
