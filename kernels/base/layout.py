"""The shape of a cache: pages, groups and the state tensors inside a page, as one immutable value.

A `Layout` is written by hand or drawn by a generator, travels inside a schedule, and is read by everything
that touches bytes: the pool (`memory`), the address tables of the copy kernels (`binding`) and the stand-in
forward (`forward`). It knows neither arrays nor devices.

The model is vLLM's unified hybrid cache: block id `b` names page `b` in every layer, and attention KV and the
recurrent states of every group share those pages; only the owner of a block id tells them apart.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

MIN_ROW_BYTES = 8
"""Smallest state row in bytes: eight are needed to carry the 64-bit identity of `patterns`."""


class StateSpec(msgspec.Struct, frozen=True):
    """One state tensor of a recurrent layer.

    `kind="temporal"`: one block holds one state of `dim` elements. `kind="conv"`: one block holds a window of
    `Layout.width` rows of `dim` elements. Raises ValueError if a row is shorter than 8 bytes.
    """

    kind: Literal["conv", "temporal"]
    dim: int
    elem_size: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("conv", "temporal"):
            raise ValueError(f"state kind is {self.kind!r}; expected 'conv' or 'temporal'")
        if self.elem_size not in (1, 2, 4, 8):
            raise ValueError(f"elem_size is {self.elem_size}; expected 1, 2, 4 or 8 bytes")
        if self.row_bytes < MIN_ROW_BYTES:
            raise ValueError(
                f"a {self.kind} row of dim {self.dim} x {self.elem_size} B holds {self.row_bytes} bytes; "
                f"expected at least {MIN_ROW_BYTES}; raise dim or elem_size"
            )

    @property
    def row_bytes(self) -> int:
        """Bytes of one temporal state, or of one token's row of a conv window."""
        return self.dim * self.elem_size


class GroupSpec(msgspec.Struct, frozen=True):
    """A cache group: the layers that share one block table.

    `block_size` is in tokens. `states` (recurrent groups) are the tensors of each layer; `kv_bytes`
    (attention groups) are the bytes a token occupies in each layer. Raises ValueError for a mix of the two.
    """

    kind: Literal["attention", "recurrent"]
    block_size: int
    states: tuple[StateSpec, ...] = ()
    kv_bytes: int = 8

    def __post_init__(self) -> None:
        if self.kind not in ("attention", "recurrent"):
            raise ValueError(f"group kind is {self.kind!r}; expected 'attention' or 'recurrent'")
        if self.block_size < 1:
            raise ValueError(f"block_size is {self.block_size}; expected at least 1 token")
        if self.kind == "recurrent" and not self.states:
            raise ValueError("a recurrent group has no states; expected at least one StateSpec")
        if self.kind == "attention" and self.states:
            raise ValueError(f"an attention group has {len(self.states)} states; expected none; use kv_bytes")
        if self.kv_bytes < MIN_ROW_BYTES:
            raise ValueError(f"kv_bytes is {self.kv_bytes}; expected at least {MIN_ROW_BYTES} bytes per token")


class StateEntry(NamedTuple):
    """One recurrent state tensor of one layer: what `program_id(1)` of a copy kernel stands for."""

    group: int
    """Index in `Layout.groups`."""
    group_index: int
    """Index among the recurrent groups: the row of the binding's table addresses."""
    layer: int
    state: int
    """Index in `GroupSpec.states`."""
    spec: StateSpec
    offset: int
    """Bytes from the start of a page to this state's data."""
    conv_width: int
    """Rows of the conv window; 0 for a temporal state."""
    data_bytes: int
    """Bytes of a block's data, without page padding."""


class Layout(msgspec.Struct, frozen=True, dict=True):
    """The memory of one rank: `layers` page tensors of `num_blocks` equal pages in one byte pool.

    Page of block `b` in layer `l` is `pool[base_offset + (l * num_blocks + b) * page_bytes :][:page_bytes]`.
    `num_drafts` is K, `base_offset` and `page_padding` are bytes. All recurrent groups share one block size,
    as the releases require ("all mamba groups must share cache scheduling parameters", vLLM 0.32).
    Raises ValueError with the offending value and the remedy.
    """

    groups: tuple[GroupSpec, ...]
    layers: int
    num_blocks: int
    num_drafts: int
    conv_kernel: int = 4
    conv_layout: Literal["SD", "DS"] = "SD"
    page_padding: int = 0
    base_offset: int = 0

    def __post_init__(self) -> None:
        bounds = (
            ("layers", self.layers, 1),
            ("num_blocks", self.num_blocks, 2),
            ("num_drafts", self.num_drafts, 0),
            ("conv_kernel", self.conv_kernel, 2),
            ("page_padding", self.page_padding, 0),
            ("base_offset", self.base_offset, 0),
        )
        for name, value, least in bounds:
            if value < least:
                raise ValueError(f"{name} is {value}; expected at least {least}")
        if not self.groups:
            raise ValueError("a layout has no groups; expected at least one GroupSpec")
        if self.conv_layout not in ("SD", "DS"):
            raise ValueError(f"conv_layout is {self.conv_layout!r}; expected 'SD' or 'DS'")
        sizes = sorted({g.block_size for g in self.groups if g.kind == "recurrent"})
        if len(sizes) > 1:
            raise ValueError(f"recurrent groups have block sizes {sizes}; expected one size; make them equal")

    @property
    def window(self) -> int:
        """Rows a convolution looks back: `conv_kernel - 1`."""
        return self.conv_kernel - 1

    @property
    def width(self) -> int:
        """Rows of a conv window in memory: `conv_kernel - 1 + K`."""
        return self.window + self.num_drafts

    @cached_property
    def recurrent_groups(self) -> tuple[int, ...]:
        """Indices in `groups`, in order."""
        return tuple(i for i, g in enumerate(self.groups) if g.kind == "recurrent")

    @cached_property
    def attention_groups(self) -> tuple[int, ...]:
        """Indices in `groups`, in order."""
        return tuple(i for i, g in enumerate(self.groups) if g.kind == "attention")

    @property
    def recurrent_block_size(self) -> int:
        """Tokens per block of every recurrent group. Raises ValueError if there is none."""
        if not self.recurrent_groups:
            raise ValueError("the layout has no recurrent group; expected at least one for a mamba block size")
        return self.groups[self.recurrent_groups[0]].block_size

    def state_bytes(self, spec: StateSpec) -> int:
        """Bytes of one block of `spec`, without page padding."""
        return spec.row_bytes * (self.width if spec.kind == "conv" else 1)

    @cached_property
    def page_bytes(self) -> int:
        """Bytes between the pages of consecutive blocks: the largest group's data plus the padding."""
        data = [
            sum(map(self.state_bytes, g.states)) if g.kind == "recurrent" else g.block_size * g.kv_bytes
            for g in self.groups
        ]
        return max(data) + self.page_padding

    @cached_property
    def pool_bytes(self) -> int:
        """Bytes of the whole pool, `base_offset` included."""
        return self.base_offset + self.layers * self.num_blocks * self.page_bytes

    @cached_property
    def states(self) -> tuple[StateEntry, ...]:
        """Every recurrent state tensor: group by group, layer by layer, state by state.

        The states of a layer are packed back to back from the start of the page.
        """
        entries: list[StateEntry] = []
        for group_index, group in enumerate(self.recurrent_groups):
            for layer in range(self.layers):
                offset = 0
                for state, spec in enumerate(self.groups[group].states):
                    size = self.state_bytes(spec)
                    width = self.width if spec.kind == "conv" else 0
                    entries.append(StateEntry(group, group_index, layer, state, spec, offset, width, size))
                    offset += size
        return tuple(entries)

    def page_start(self, layer: int, block_id: int) -> int:
        """Byte offset in the pool of the page of `block_id` in `layer`."""
        return self.base_offset + (layer * self.num_blocks + block_id) * self.page_bytes
