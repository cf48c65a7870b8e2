"""Many runs side by side in one pool: what is needed besides the ordinary operators, and its references.

A *universe* is one run's share of a rank's arrays: with `size` blocks and `rows` slots and batch rows a universe, block
`b` of universe `u` is block `u * size + b` of the common pool, slot `s` is `u * rows + s`, and so are batch rows. Every
universe's own block 0 is its null block. The kernels under test and the operators run over all universes in one launch,
with a slot of -1 for a batch row that a universe does not have; only what looks at universes as such is here. Triton
twins: `universes_triton`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from stalerow.kernels.base.device import Array, HostArray
from stalerow.kernels.base.fingerprint import coefficients
from stalerow.kernels.base.memory import Pool
from stalerow.kernels.base.patterns import JUNK, mix64
from stalerow.kernels.own.forward_classes import forward_classes

NEVER = 1 << 30
"""The verdict of a universe in which nothing has been wrong yet."""

UNCHECKED = -1
"""An expected number that may be anything."""


class Moves(NamedTuple):
    """Intended moves of a group's states, int [n] each. Blocks are those of the common pool.

    A conv state moves from block `conv_source`, `bias` rows on; a temporal one from block `temporal_source`.
    """

    group_index: Array
    conv_source: Array
    temporal_source: Array
    target: Array
    bias: Array


class Universes(NamedTuple):
    """`size`: blocks that each has in the pool; `own` int32 [U]: those it uses; `ends` int32 [U]: its frames."""

    size: int
    own: Array
    ends: Array


class UniverseOperators(Protocol):
    """What runs over universes. Shapes: U universes, R batch rows of all universes, T positions."""

    def prefix_hashes(self, streams: Array, stream: Array, good: Array, step: Array, out: Array) -> None:
        """`out[r, t] = streams[stream[r], t]` up to `t = good[r]`, and junk hashes of step `step[r]` past it.

        streams int64 [streams, T], out int64 [R, T]; a row whose stream is -1 is left alone.
        """

    def move_states(self, pool: Pool, moves: Moves) -> None:
        """Do to the pool what the moves mean; all sources are read before any target is written."""

    def check_counts(
        self, held: Sequence[Array], slot: Array, expected: Array, universe: Array, verdicts: Array, number: int
    ) -> None:
        """`verdicts[u] = min(verdicts[u], number)`, u = universe[i], where `held[k][slot[i]]` is not `expected[k, i]`.

        held: one to five int32 [slots]; slot, universe int64 [n]; expected int64 [len(held), n], `UNCHECKED` where it
        may be anything; verdicts int32 [U].
        """

    def check_damage(self, damage: Array, weights: Array, verdicts: Array, number: int, prints: Array) -> None:
        """`verdicts[u] = min(verdicts[u], number)` where a universe read damage; `prints[u]` is its fingerprint.

        damage int64 [R, units], one universe after another; weights int64 [R / U, units]; verdicts int32 [U]; prints
        int64 [U].
        """

    def check_pages(
        self,
        universes: Universes,
        pool: Pool,
        shadow: Pool,
        frame: int,
        number: int,
        verdicts: Array,
        prints: Array | None,
    ) -> None:
        """`verdicts[u] = min(verdicts[u], number)` where the pages of `u` are not the shadow's, which takes them over.

        verdicts int32 [U]; prints int64 [U] gets the fingerprint of each universe's own pages. Universes that ended
        before `frame` are skipped.
        """


class ReferenceUniverses:
    """The NumPy specifications."""

    def prefix_hashes(
        self, streams: HostArray, stream: HostArray, good: HostArray, step: HostArray, out: HostArray
    ) -> None:
        rows = np.flatnonzero(stream >= 0)
        t = np.arange(streams.shape[1])
        true = streams[stream[rows]]
        last = true[np.arange(rows.size), good[rows]].view(np.uint64)
        j = (t - good[rows, None] - 1).clip(0)
        drafts = mix64((step[rows, None] * 64 + j).astype(np.uint64))
        junk = mix64(last[:, None] ^ np.uint64(JUNK) ^ drafts).view(np.int64)
        out[rows] = np.where(t <= good[rows, None], true, junk)

    def move_states(self, pool: Pool, moves: Moves) -> None:
        layout = pool.layout
        writes = []
        for cls in forward_classes(layout).recurrent:
            rows = np.arange(layout.width if cls.conv else 1)
            for table, start in zip(cls.table, cls.start):
                mine = np.flatnonzero(moves.group_index == table)
                source = (moves.conv_source if cls.conv else moves.temporal_source)[mine].astype(np.int64)
                bias = moves.bias[mine] if cls.conv else np.zeros(mine.size, dtype=np.int64)
                place = start + moves.target[mine].astype(np.int64)[:, None] * layout.page_bytes + rows * cls.row_stride
                origin = start + source[:, None] * layout.page_bytes + (rows + bias[:, None]) * cls.row_stride
                kept = rows < rows.size - bias[:, None]
                offsets = cls.byte_offsets
                writes.append((place[kept][:, None] + offsets, pool.array[origin[kept][:, None] + offsets]))
        for where, values in writes:
            pool.array[where] = values

    def check_counts(
        self,
        held: Sequence[HostArray],
        slot: HostArray,
        expected: HostArray,
        universe: HostArray,
        verdicts: HostArray,
        number: int,
    ) -> None:
        actual = np.stack([array[slot] for array in held])
        wrong = ((expected != UNCHECKED) & (actual != expected)).any(axis=0)
        np.minimum.at(verdicts, universe[wrong], number)

    def check_damage(
        self, damage: HostArray, weights: HostArray, verdicts: HostArray, number: int, prints: HostArray
    ) -> None:
        by_universe = damage.reshape(len(verdicts), *weights.shape)
        wrong = by_universe.any(axis=(1, 2))
        verdicts[wrong] = np.minimum(verdicts[wrong], number)
        prints[:] = (by_universe * weights).sum(axis=(1, 2))

    def check_pages(
        self,
        universes: Universes,
        pool: Pool,
        shadow: Pool,
        frame: int,
        number: int,
        verdicts: HostArray,
        prints: HostArray | None,
    ) -> None:
        layers, page_bytes = pool.layout.layers, pool.layout.page_bytes
        shape = (layers, len(verdicts), universes.size, page_bytes)
        actual, meant = pool.pages(pool.array).reshape(shape), shadow.pages(shadow.array).reshape(shape)
        alive = universes.ends > frame
        wrong = (actual != meant).any(axis=(0, 2, 3)) & alive
        if wrong.any():
            verdicts[wrong] = np.minimum(verdicts[wrong], number)
            meant[:, wrong] = actual[:, wrong]
        if prints is not None:
            used = (np.arange(universes.size) >= 1) & (np.arange(universes.size) < universes.own[:, None])
            weights = coefficients(layers, universes.size, page_bytes)
            for u in np.flatnonzero(alive):
                prints[u] = (actual[:, u, used[u]] * weights[:, used[u]]).sum()
