"""The universe operators as Triton kernels. Twin of `universes`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl

from stalerow.kernels.base.device import Array, Backend
from stalerow.kernels.base.fingerprint import coefficients
from stalerow.kernels.base.jit import max_of, sum_along
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import Pool
from stalerow.kernels.base.patterns import JUNK
from stalerow.kernels.own.forward_classes import forward_classes
from stalerow.kernels.own.forward_triton_rows import mix64
from stalerow.kernels.own.universes import UNCHECKED, Moves, Universes

_JUNK = tl.constexpr(JUNK)
_UNCHECKED = tl.constexpr(UNCHECKED)
MAX_HELD = 5
COUNTS = 128
"""Rows whose counts a program checks."""
ROWS, POSITIONS = 16, 64
"""A program's tile of hashes: batch rows x positions."""
MAX_BYTES = 64
"""Bytes of every row of a state that a program moves at once."""
CHUNK = 1024
"""Bytes of a universe that a program compares at once."""


@triton.jit(do_not_specialize=["num_rows", "length"])
def prefix_hashes_kernel(
    streams, stream, good, step, out, num_rows, length, ROWS: tl.constexpr, POSITIONS: tl.constexpr
):
    """`out[r, :]` = the stream's hashes up to `good[r]`, then junk hashes of the row's step."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    own = tl.load(stream + row, mask=row < num_rows, other=-1).to(tl.int64)
    live = own >= 0
    last = tl.load(good + row, mask=live, other=0).to(tl.int64)
    number = tl.load(step + row, mask=live, other=0).to(tl.int64)
    last_hash = tl.load(streams + own * length + last, mask=live, other=0).to(tl.uint64)
    t = tl.program_id(1).to(tl.int64) * POSITIONS + tl.arange(0, POSITIONS)
    mask = live[:, None] & (t < length)[None, :]
    true = tl.load(streams + own[:, None] * length + t[None, :], mask=mask, other=0)
    draft = tl.maximum(t[None, :] - last[:, None] - 1, 0)
    junk = mix64(last_hash[:, None] ^ _JUNK ^ mix64((number[:, None] * 64 + draft).to(tl.uint64)))
    found = tl.where(t[None, :] <= last[:, None], true, junk.to(tl.int64))
    tl.store(out + row[:, None] * length + t[None, :], found, mask=mask)


@triton.jit
def move_states_kernel(
    pool,
    page_bytes: tl.int64,
    unit_fields,
    unit_starts,
    group_index,
    conv_source,
    temporal_source,
    target,
    bias,
    WIDTH: tl.constexpr,
    MAX_ROW_BYTES: tl.constexpr,
    ROWS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """Move number `program_id(0)` of state `program_id(1)`: `dst[: width - bias] = src[bias : width]`.

    `unit_fields` is int32 [states, 6]: group index, conv, row bytes, row stride, chunk, chunk stride. A chunk of bytes
    of all rows is loaded before any is stored, so a window may be shifted inside its own block.
    """
    move = tl.program_id(0)
    field = unit_fields + tl.program_id(1) * 6
    if tl.load(group_index + move) == tl.load(field):
        conv = tl.load(field + 1) != 0
        row_bytes = tl.load(field + 2).to(tl.int64)
        row_stride = tl.load(field + 3).to(tl.int64)
        chunk = tl.load(field + 4).to(tl.int64)
        chunk_stride = tl.load(field + 5).to(tl.int64)
        start = pool + tl.load(unit_starts + tl.program_id(1))
        source = tl.load(temporal_source + move).to(tl.int64)
        skipped = tl.full((), 0, tl.int64)
        count = tl.full((), 1, tl.int64)
        if conv:
            source = tl.load(conv_source + move).to(tl.int64)
            skipped = tl.load(bias + move).to(tl.int64)
            count = WIDTH - skipped
        origin = start + source * page_bytes + skipped * row_stride
        place = start + tl.load(target + move).to(tl.int64) * page_bytes
        i = tl.arange(0, ROWS).to(tl.int64)
        for first in range(0, MAX_ROW_BYTES, BYTES):
            j = tl.arange(0, BYTES).to(tl.int64) + first
            at = (i * row_stride)[:, None] + (j // chunk * chunk_stride + j % chunk)[None, :]
            mask = (i < count)[:, None] & (j < row_bytes)[None, :]
            data = tl.load(origin + at, mask=mask)
            tl.debug_barrier()
            tl.store(place + at, data, mask=mask)


@triton.jit(do_not_specialize=["n", "number", "expected_stride"])
def check_counts_kernel(
    held_0,
    held_1,
    held_2,
    held_3,
    held_4,
    slot,
    expected,
    expected_stride: tl.int64,
    universe,
    verdicts,
    n,
    number,
    COUNT: tl.constexpr,
    COUNTS: tl.constexpr,
):
    """`COUNTS` rows: whether the numbers held are those expected."""
    i = tl.program_id(0) * COUNTS + tl.arange(0, COUNTS)
    mask = i < n
    at = tl.load(slot + i, mask=mask, other=0)
    expects = expected + i
    want = tl.load(expects, mask=mask, other=-1)
    wrong = (want != _UNCHECKED) & (tl.load(held_0 + at, mask=mask, other=0) != want)
    if COUNT > 1:
        want = tl.load(expects + expected_stride, mask=mask, other=-1)
        wrong = wrong | ((want != _UNCHECKED) & (tl.load(held_1 + at, mask=mask, other=0) != want))
    if COUNT > 2:
        want = tl.load(expects + expected_stride * 2, mask=mask, other=-1)
        wrong = wrong | ((want != _UNCHECKED) & (tl.load(held_2 + at, mask=mask, other=0) != want))
    if COUNT > 3:
        want = tl.load(expects + expected_stride * 3, mask=mask, other=-1)
        wrong = wrong | ((want != _UNCHECKED) & (tl.load(held_3 + at, mask=mask, other=0) != want))
    if COUNT > 4:
        want = tl.load(expects + expected_stride * 4, mask=mask, other=-1)
        wrong = wrong | ((want != _UNCHECKED) & (tl.load(held_4 + at, mask=mask, other=0) != want))
    which = tl.load(universe + i, mask=mask, other=0)
    numbers = tl.full((COUNTS,), 0, tl.int32) + number
    tl.atomic_min(verdicts + which, numbers, mask=mask & wrong)


@triton.jit(do_not_specialize=["size", "number"])
def check_damage_kernel(damage, weights, verdicts, prints, size, number, CHUNK: tl.constexpr):
    """One universe: whether its rows read damage, and the fingerprint of it."""
    universe = tl.program_id(0).to(tl.int64)
    wrong = tl.full((CHUNK,), 0, tl.int32)
    total = tl.full((CHUNK,), 0, tl.int64)
    for first in range(0, size, CHUNK):
        j = first + tl.arange(0, CHUNK)
        found = tl.load(damage + universe * size + j, mask=j < size, other=0)
        wrong += (found != 0).to(tl.int32)
        total += found * tl.load(weights + j, mask=j < size, other=0)
    if max_of(wrong) > 0:
        tl.store(verdicts + universe, tl.minimum(tl.load(verdicts + universe), number))
    tl.store(prints + universe, sum_along(total, axis=0))


@triton.jit(do_not_specialize=["num_universes", "size", "frame", "number"])
def compare_kernel(
    pool,
    shadow,
    weights,
    own,
    ends,
    verdicts,
    prints,
    num_universes,
    size: tl.int64,
    page_bytes: tl.int64,
    frame,
    number,
    LAYERS: tl.constexpr,
    PRINT: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """One universe: whether its pages are the shadow's, and with `PRINT` their fingerprint."""
    universe = tl.program_id(0).to(tl.int64)
    if tl.load(ends + universe) > frame:
        universe_bytes = size * page_bytes
        used = tl.load(own + universe).to(tl.int64) * page_bytes
        wrong = tl.full((CHUNK,), 0, tl.int32)
        total = tl.full((CHUNK,), 0, tl.int64)
        for layer in range(LAYERS):
            start = (layer * num_universes + universe) * universe_bytes
            for first in range(0, universe_bytes, CHUNK):
                j = tl.arange(0, CHUNK).to(tl.int64) + first
                mask = j < universe_bytes
                actual = tl.load(pool + start + j, mask=mask, other=0)
                meant = tl.load(shadow + start + j, mask=mask, other=0)
                differs = actual != meant
                wrong += differs.to(tl.int32)
                tl.store(shadow + start + j, actual, mask=mask & differs)
                if PRINT:
                    weight = tl.load(weights + layer * universe_bytes + j, mask=(j >= page_bytes) & (j < used), other=0)
                    total += actual.to(tl.int64) * weight
        if max_of(wrong) > 0:
            tl.store(verdicts + universe, tl.minimum(tl.load(verdicts + universe), number))
        if PRINT:
            tl.store(prints + universe, sum_along(total, axis=0))


class TritonUniverses:
    """Launches on the current stream; keeps the per-layout arrays between calls."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._states: dict[Layout, tuple[Array, Array, int]] = {}
        self._weights: dict[tuple[int, int, int], Array] = {}

    def prefix_hashes(self, streams: Array, stream: Array, good: Array, step: Array, out: Array) -> None:
        """See `universes.UniverseOperators`."""
        rows, length = out.shape
        grid = (triton.cdiv(rows, ROWS), triton.cdiv(length, POSITIONS))
        prefix_hashes_kernel[grid](streams, stream, good, step, out, rows, length, ROWS=ROWS, POSITIONS=POSITIONS)

    def move_states(self, pool: Pool, moves: Moves) -> None:
        """See `universes.UniverseOperators`; a move's source must not be another one's target."""
        layout = pool.layout
        count = len(moves.target)
        if not count or not layout.states:
            return
        fields, starts, row_bytes = self._state_arrays(layout)
        move_states_kernel[(count, len(layout.states))](
            pool.array,
            layout.page_bytes,
            fields,
            starts,
            *moves,
            WIDTH=layout.width,
            MAX_ROW_BYTES=row_bytes,
            ROWS=triton.next_power_of_2(layout.width),
            BYTES=min(triton.next_power_of_2(row_bytes), MAX_BYTES),
        )

    def check_counts(
        self, held: Sequence[Array], slot: Array, expected: Array, universe: Array, verdicts: Array, number: int
    ) -> None:
        """See `universes.UniverseOperators`."""
        n = len(slot)
        check_counts_kernel[(triton.cdiv(n, COUNTS),)](
            *held,
            *[held[0]] * (MAX_HELD - len(held)),
            slot,
            expected,
            expected.stride(0),
            universe,
            verdicts,
            n,
            number,
            COUNT=len(held),
            COUNTS=COUNTS,
        )

    def check_damage(self, damage: Array, weights: Array, verdicts: Array, number: int, prints: Array) -> None:
        """See `universes.UniverseOperators`."""
        size = weights.numel()
        check_damage_kernel[(len(verdicts),)](
            damage, weights, verdicts, prints, size, number, CHUNK=min(triton.next_power_of_2(size), CHUNK)
        )

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
        """See `universes.UniverseOperators`."""
        layout = pool.layout
        key = (layout.layers, universes.size, layout.page_bytes)
        if prints is not None and key not in self._weights:
            self._weights[key] = self._backend.from_host(np.array(coefficients(*key)))
            self._backend.synchronize()  # other streams read it too
        compare_kernel[(len(verdicts),)](
            pool.array[layout.base_offset :],
            shadow.array[layout.base_offset :],
            self._weights[key] if prints is not None else None,
            universes.own,
            universes.ends,
            verdicts,
            prints,
            len(verdicts),
            universes.size,
            layout.page_bytes,
            frame,
            number,
            LAYERS=layout.layers,
            PRINT=prints is not None,
            CHUNK=CHUNK,
        )

    def _state_arrays(self, layout: Layout) -> tuple[Array, Array, int]:
        """(fields, starts, longest row in bytes) of the recurrent states."""
        if layout not in self._states:
            classes = forward_classes(layout).recurrent
            fields = [
                (c.table[i], c.conv, c.row_bytes, c.row_stride, c.chunk, c.chunk_stride)
                for c in classes
                for i in range(c.units.size)
            ]
            self._states[layout] = (
                self._backend.from_host(np.array(fields, dtype=np.int32)),
                self._backend.from_host(np.concatenate([c.start for c in classes]).astype(np.int64)),
                max(c.row_bytes for c in classes),
            )
            self._backend.synchronize()  # other streams read it too
        return self._states[layout]
