"""The persistent arrays of one rank: the byte pool, the block tables and the per-slot state.

Each is allocated once on a `Backend` and changed only by operators and kernels, in stream order. *Slot* is a
request's row in the persistent tables, *batch row* its position in one step's batch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stalerow.kernels.base.device import Array, Backend, HostArray, as_int64
from stalerow.kernels.base.layout import Layout

POISON = 0xCB
"""Byte that fills freed and never written pages."""

NULL_POISON = 0xB0
"""Byte that fills the null block, so that what comes from it shows."""


class OutOfBounds(IndexError):
    """A reference kernel was told to touch memory outside a table or the pool; nothing was touched.

    `tensor` names the array, (`row`, `column`) the table entry, `block_id` its value, or None where the
    column itself is outside; `bound` is the number of valid values.
    """

    def __init__(self, tensor: str, row: int, column: int, block_id: int | None, bound: int) -> None:
        self.tensor = tensor
        self.row = row
        self.column = column
        self.block_id = block_id
        self.bound = bound
        what = "column" if block_id is None else f"block id {block_id}"
        super().__init__(f"{tensor}[{row}, {column}]: {what} is outside 0..{bound - 1}")


class WildAccess(OutOfBounds):
    """A compiled kernel was about to touch memory that its launch may not touch; those bytes were not touched.

    `verb` is "load", "store" or "atomic" of `size` bytes at `address`, at `file`:`line` of the kernel's source, by
    `program` (x, y, z). `near` names the array that lies closest and says where the address is in its terms.
    `block_id` is the page of the pool, counted on past its end or before its start, or None if the closest is another.
    """

    def __init__(
        self,
        kernel: str,
        verb: str,
        size: int,
        address: int,
        program: tuple[int, int, int],
        file: str,
        line: int,
        near: str,
        block_id: int | None,
    ) -> None:
        self.kernel = kernel
        self.verb = verb
        self.size = size
        self.address = address
        self.program = program
        self.file = file
        self.line = line
        self.near = near
        self.block_id = block_id
        place = f"{os.path.basename(file)}:{line}" if file else "an unknown line"
        touches = f"{_PAST[verb]} {size} byte{'s' * (size > 1)} at {address:#x}"
        IndexError.__init__(self, f"{kernel} at {place}: program {program} {touches}, {near}")


@dataclass(frozen=True, eq=False)
class Region:
    """An array that kernels may touch, and what it is called in an error; `layout` is given for a pool."""

    array: Array
    name: str
    layout: Layout | None = None

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Addresses of the first byte and of the one past the last, for a tensor in host memory."""
        low = int(self.array.data_ptr())
        return low, low + int(self.array.nbytes)

    def block(self, address: int) -> int | None:
        """The page that `address` lies in, counted on past the pool's end or before its start; None for no pool."""
        if self.layout is None:
            return None
        page = (address - self.bounds[0] - self.layout.base_offset) // self.layout.page_bytes
        inside = 0 <= page < self.layout.layers * self.layout.num_blocks
        return page % self.layout.num_blocks if inside else page

    def place(self, address: int) -> str:
        """Where `address` lies, in words."""
        low, high = self.bounds
        if address < low:
            where = f"{low - address} bytes before"
        elif address >= high:
            where = f"{address - high} bytes past the end of"
        else:
            where = f"{address - low} bytes into"
        block = self.block(address)
        as_block = f" (as a block: {block})" if block is not None else ""
        return f"{where} {self.name} ({high - low} bytes){as_block}"


def named(array: Array, name: str, layout: Layout | None = None) -> None:
    """Give a tensor the name that errors use. An array that takes no attributes (NumPy's) is left as it is."""
    _attach(array, "_stalerow_region", Region(array, name, layout))


def reaches(pointers: Array, regions: Sequence[Region]) -> None:
    """Say that `pointers` holds addresses in `regions`: a kernel that is given it may touch them, and nothing else."""
    _attach(pointers, "_stalerow_reached", tuple(regions))


def region_of(array: Array) -> Region | None:
    """What `named` said of an array."""
    found: Region | None = getattr(array, "_stalerow_region", None)
    return found


def reached_by(array: Array) -> tuple[Region, ...] | None:
    """What `reaches` said of an array."""
    found: tuple[Region, ...] | None = getattr(array, "_stalerow_reached", None)
    return found


def _attach(array: Array, attribute: str, value: object) -> None:
    if not isinstance(array, np.ndarray):
        setattr(array, attribute, value)


_PAST = {"load": "loads", "store": "stores", "atomic": "updates"}


class Pool:
    """All pages of one rank: `array`, uint8 [layout.pool_bytes], at `address`; the null block has its own fill.

    `journal`: while it is a list, the reference forward appends what it stores, in order: (index into `array`, bytes).
    """

    def __init__(self, layout: Layout, backend: Backend, fill: int = POISON) -> None:
        self.layout = layout
        self.journal: list[tuple[Any, HostArray]] | None = None
        host = np.full(layout.pool_bytes, fill, dtype=np.uint8)
        if fill == POISON:
            self.pages(host)[:, 0] = NULL_POISON
        self.array = backend.from_host(host)
        named(self.array, "pool", layout)
        self.address = backend.address(self.array)

    def pages(self, host: HostArray) -> HostArray:
        """`host` (the pool's bytes on the host) as a view, uint8 [layers, num_blocks, page_bytes]."""
        layout = self.layout
        return host[layout.base_offset :].reshape(layout.layers, layout.num_blocks, layout.page_bytes)


class BlockTables:
    """Block ids of every group, twice: by slot (`persistent`) and by batch row of the last gather (`gathered`).

    Both are lists of int32 [max_reqs, max_blocks], one per group of the layout; `num_blocks` is int32
    [num_groups, max_reqs] by slot. `*_ptrs` (int64 [num_groups]) hold the addresses, `row_stride` is in
    elements and the same for every group.
    """

    def __init__(self, layout: Layout, max_reqs: int, max_blocks: int, backend: Backend) -> None:
        groups = range(len(layout.groups))
        self.max_reqs = max_reqs
        self.max_blocks = max_blocks
        self.row_stride = max_blocks
        self.persistent: list[Array] = [backend.alloc((max_reqs, max_blocks), "int32") for _ in groups]
        self.gathered: list[Array] = [backend.alloc((max_reqs, max_blocks), "int32") for _ in groups]
        self.num_blocks = backend.alloc((len(layout.groups), max_reqs), "int32")
        self.persistent_ptrs = addresses(self.persistent, backend, "block_tables")
        self.gathered_ptrs = addresses(self.gathered, backend, "gathered block_tables")


class SlotState:
    """What a rank remembers per slot; int32 [max_reqs] unless said otherwise.

    `state_idx` (running column), `num_accepted` (of the last step, at least 1) and its snapshot,
    `num_computed` (tokens), `src_col` and `src_off` (a step's scratch, from preprocess to precopy),
    `total_len` (tokens known), `token_ids` int32 [max_reqs, max_model_len], `last_token` int64 [max_reqs].
    """

    def __init__(self, max_reqs: int, max_model_len: int, backend: Backend) -> None:
        self.max_reqs = max_reqs
        self.max_model_len = max_model_len
        self.state_idx = backend.alloc(max_reqs, "int32")
        self.num_accepted = backend.alloc(max_reqs, "int32", 1)
        self.num_accepted_snapshot = backend.alloc(max_reqs, "int32", 1)
        self.num_computed = backend.alloc(max_reqs, "int32")
        self.src_col = backend.alloc(max_reqs, "int32", -1)
        self.src_off = backend.alloc(max_reqs, "int32")
        self.total_len = backend.alloc(max_reqs, "int32")
        self.token_ids = backend.alloc((max_reqs, max_model_len), "int32")
        self.last_token = backend.alloc(max_reqs, "int64")


def addresses(arrays: list[Array], backend: Backend, name: str) -> Array:
    """int64 [len(arrays)] on the device: the bit patterns of the arrays' unsigned addresses.

    `name` is what errors call the arrays, with their number behind it.
    """
    values = [as_int64(backend.address(array)) for array in arrays]
    pointers = backend.from_host(np.array(values, dtype=np.int64))
    reaches(pointers, [Region(array, f"{name}[{number}]") for number, array in enumerate(arrays)])
    return pointers


def live_rows(idx_mapping: HostArray, num_rows: int) -> tuple[HostArray, HostArray]:
    """(rows, slots), int64: the batch rows below `num_rows` that have a slot."""
    slots = idx_mapping[:num_rows]
    rows = np.flatnonzero(slots >= 0)
    return rows, slots[rows]
