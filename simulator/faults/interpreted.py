"""Triton's interpreter with the programs of a launch, or the rows of a window, in a drawn order.

Two contained patches, each for the length of one launch: the interpreter's announcement of the next program, and the
device function that moves a window. Imported only for kernel sets that run interpreted.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from stalerow.simulator.faults.programs import DrawnOrder


@contextlib.contextmanager
def drawn_grid(order: DrawnOrder) -> Iterator[None]:
    """Run the programs of the launches inside in a drawn order.

    The interpreter walks the grid in nested loops and tells its builder the indices of every program; that is where
    they are exchanged.
    """
    builder = importlib.import_module("triton.runtime.interpreter").interpreter_builder
    set_dim, set_index = builder.set_grid_dim, builder.set_grid_idx
    queue: list[tuple[int, int, int]] = []

    def dim(x: int, y: int, z: int) -> None:
        set_dim(x, y, z)
        queue[:] = [(i // (y * z), i // z % y, i % z) for i in order.permutation(x * y * z)]

    def index(x: int, y: int, z: int) -> None:
        set_index(*queue.pop())

    builder.set_grid_dim, builder.set_grid_idx = dim, index
    try:
        yield
    finally:
        builder.set_grid_dim, builder.set_grid_idx = set_dim, set_index


@contextlib.contextmanager
def drawn_rows(order: DrawnOrder) -> Iterator[None]:
    """Let windows be moved row by row in a drawn order, each row read when its turn comes."""
    module = importlib.import_module("stalerow.kernels.align.copy_triton")
    original = module._move
    setattr(module, "_move", _row_by_row(order))  # noqa: B010
    try:
        yield
    finally:
        setattr(module, "_move", original)  # noqa: B010


def _row_by_row(order: DrawnOrder) -> Callable[..., None]:
    tl = importlib.import_module("triton.language")

    def move(
        src: Any,
        dst: Any,
        offset: Any,
        inside: Any,
        num_tokens: Any,
        token_stride: Any,
        UNIT: Any,
        TOKENS_LAST: Any,
        WIDTH_BLOCK: Any,
    ) -> None:
        pointer = tl.pointer_type(UNIT)
        for token in order.permutation(int(getattr(WIDTH_BLOCK, "value", WIDTH_BLOCK))):
            lanes = offset + token_stride * token
            mask = inside & (offset * 0 + token < num_tokens)
            data = tl.load((src + lanes).to(pointer), mask=mask)
            tl.store((dst + lanes).to(pointer), data, mask=mask)

    return move
