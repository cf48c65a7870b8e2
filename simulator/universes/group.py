"""One rank of all lanes: its pool and tables, the shadow of what they should be, and a frame's launches in order."""

from __future__ import annotations

import msgspec
import numpy as np

from stalerow.kernels.binding import Cache, bind_cache
from stalerow.kernels.device import Array
from stalerow.kernels.fingerprint import coefficients
from stalerow.kernels.forward_plan import forward_plan
from stalerow.kernels.lanes import NEVER, Lanes, Moves, lane_operators
from stalerow.kernels.memory import POISON, BlockTables, SlotState
from stalerow.kernels.operators import ForwardStep
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.oracle.judge import DIGESTED
from stalerow.simulator.rank.base import PADDED_ROW_BYTE
from stalerow.simulator.universes.arrays import Arrays
from stalerow.simulator.universes.cached import damage_of_cached
from stalerow.simulator.universes.memory import Wire, cast_like, lane_pool, null_tables
from stalerow.simulator.universes.pack import Pack
from stalerow.simulator.universes.tape import UNCHECKED

CHECKS = (
    "counts after an output",
    "pool after postprocess",
    "pool after admissions",
    "pool after precopy",
    "counts before the forward",
    "new attention blocks",
    "reads of the forward",
    "pool after the forward",
    "cached states at the end",
)


class RankGroup:
    """Rank `rank` of every lane of a pack."""

    def __init__(
        self,
        pack: Pack,
        rank: int,
        num_ranks: int,
        kernels: KernelSet,
        arrays: Arrays,
        wire: Wire,
        zero_padding: bool,
    ) -> None:
        self.pack, self.rank, self.num_ranks, self.wire = pack, rank, num_ranks, wire
        self.ops, self.align, self.backend, self.arrays = kernels.ops, kernels.align, kernels.backend, arrays
        self.lane_ops = lane_operators(self.backend)
        self.zero_padding = zero_padding
        self.is_last = rank == num_ranks - 1
        self.stream = arrays.stream()
        self._tables = {name: (arrays.upload(table.values), table.starts) for name, table in pack.ranks[rank].items()}
        self._allocate()

    def _allocate(self) -> None:
        pack, backend, upload = self.pack, self.backend, self.arrays.upload
        sizes, count = pack.sizes, pack.count
        self.rows_per_lane, self.num_rows = sizes["slots"], sizes["slots"] * count
        self.layout = layout = msgspec.structs.replace(pack.layout, num_blocks=sizes["blocks"] * count)
        self.pool, self.shadow = (
            lane_pool(layout, sizes["blocks"], backend),
            lane_pool(layout, sizes["blocks"], backend),
        )
        null = np.repeat(np.arange(count, dtype=np.int32) * sizes["blocks"], sizes["slots"])
        self._null = upload(null.astype(np.int64))
        self.tables = null_tables(layout, null, sizes["columns"], backend)
        # Tables of the oracle: a request's own columns, and a batch's rows of them.
        of_requests = np.repeat(np.arange(count, dtype=np.int32) * sizes["blocks"], pack.requests)
        self.owned = null_tables(layout, of_requests, sizes["columns"], backend)
        self.meant_tables = null_tables(layout, null, sizes["columns"], backend)
        self.slots = SlotState(self.num_rows, sizes["positions"], backend)
        self.meant_slots = SlotState(self.num_rows, 1, backend)
        cache = Cache(layout, self.pool, self.tables)
        self.binding = bind_cache(cache, self.align.reads_slot_tables, backend)
        columns = layout.num_drafts + 1
        groups = len(layout.recurrent_groups)
        self.state_indices = backend.alloc((groups, self.num_rows, columns), "int32")
        self.meant_indices = backend.alloc((groups, self.num_rows, columns), "int32")
        self.seq_lens = backend.alloc(self.num_rows, "int32")
        self.tokens, self.streams = upload(pack.tokens), upload(pack.hashes)
        self.hashes = backend.alloc((self.num_rows, sizes["positions"] + 1), "int64")
        self.lanes = Lanes(sizes["blocks"], upload(pack.own_blocks), upload(pack.ends))
        self.verdicts = backend.alloc(count, "int32", NEVER)
        units = forward_plan(layout).num_units
        self.damage, self.meant_damage = (backend.alloc((self.num_rows, units), "int64") for _ in range(2))
        self.leaving = backend.alloc(self.num_rows, "int64")
        self.damage_weights = upload(np.array(coefficients(1, self.rows_per_lane, units)[0]))
        self.prints = backend.alloc((pack.frames, 2, count), "int64")
        self.ends = backend.alloc((1 + len(DIGESTED), count), "int64")
        self._lane_ids = upload(np.arange(count))
        self._no_arrivals = backend.alloc(self.num_rows, "int64")
        self._spans = upload(np.arange(columns))

    def frame(self, frame: int) -> None:
        """Everything that the rank's host enqueued for one step, in stream order."""
        self._frame = frame
        if not self.is_last:
            self._take_output()
        self._admit()
        self._write_tables()
        if self._count("rows"):
            self._run_batch()
        if self.is_last:
            self._sample()
            self._take_output()

    def _of(self, name: str) -> tuple[Array, ...]:
        """The frame's rows of a table: lane, then the columns of `tape.COLUMNS`, int64 [n] each."""
        values, starts = self._tables[name]
        return tuple(values[:, starts[self._frame] : starts[self._frame + 1]])

    def _count(self, name: str) -> int:
        starts = self._tables[name][1]
        return starts[self._frame + 1] - starts[self._frame]

    def _number(self, check: int) -> int:
        return self._frame * len(CHECKS) + check

    def _wrong(self, lane: Array, wrong: Array, check: int) -> None:
        self.arrays.least(self.verdicts, lane, wrong, self._number(check))

    def _compare(self, check: int, prints: Array | None = None, frame: int | None = None) -> None:
        frame = self._frame if frame is None else frame
        number = self._number(check)
        self.lane_ops.compare(self.lanes, self.pool, self.shadow, frame, number, self.verdicts, prints)

    def _take_output(self) -> None:
        """Bookkeeping and postprocess of this step's output (last rank) or of the one P steps ago."""
        n = self._count("outcomes")
        of = self._frame if self.is_last else self._frame - self.num_ranks
        if n:
            if not self.is_last:
                self.arrays.wait(self.stream, self.wire.broadcast[of])
            lane, row, slot, query_len, *expected = self._of("outcomes")
            counts, rejected, *tokens = (self.wire.sampled if self.is_last else self.wire.received)[of][:, row]
            sampled = self.backend.alloc((n, len(tokens)), "int64")
            for i, ids in enumerate(tokens):
                sampled[:, i] = ids
            qsl = self.arrays.starts(query_len) if self.is_last else None
            self.ops.post_update(self.slots, slot, sampled, counts, rejected, qsl, n)
            self.ops.scatter_accepted(self.slots, slot, counts, n)
            held = (self.slots.num_computed, self.slots.total_len, self.slots.last_token)
            self._check_slots(lane, slot, held, expected, 0)
            mapping = self.backend.alloc(self.num_rows, "int64", -1)
            mapping[row] = slot
            self.align.postprocess(
                self.slots, self.binding, mapping, self.num_rows, self.layout.recurrent_block_size, None
            )
        self._move("postmoves")
        if n or self._count("postmoves"):
            self._compare(1)

    def _check_slots(
        self, lane: Array, slot: Array, held: tuple[Array, ...], expected: list[Array], check: int
    ) -> None:
        wrong = None
        for array, value in zip(held, expected):
            differs = (value != UNCHECKED) & (array[slot] != value)
            wrong = differs if wrong is None else wrong | differs
        self._wrong(lane, wrong, check)

    def _move(self, name: str) -> None:
        if self._count(name):
            self.lane_ops.move_states(self.shadow, Moves(*self._of(name)[1:]))

    def _admit(self) -> None:
        """Blocks change hands, new requests get their slots, and pages are filled and copied."""
        n = self._count("owned")
        if n:
            _, group, request, column, block = self._of("owned")
            self._write(self.owned, group, request, column, block, n)
        changed = 0
        for name, byte in (("poisoned", POISON), ("zeroed", 0)):
            if count := self._count(name):
                _, block = self._of(name)
                for pool in (self.pool, self.shadow):
                    self.ops.fill_blocks(pool, block, count, byte)
                changed += count
        if count := self._count("seeds"):
            _, slot, state_idx, accepted, computed, total, request = self._of("seeds")
            tokens = self.tokens[request]
            self.ops.seed_slots(self.slots, slot, state_idx, accepted, computed, total, tokens, count)
        if count := self._count("pages"):
            _, source, target = self._of("pages")
            for pool in (self.pool, self.shadow):
                self.ops.copy_blocks(pool, source, target, count)
            changed += count
        if changed:
            self._compare(2)

    def _write(self, tables: BlockTables, group: Array, row: Array, column: Array, block: Array, n: int) -> None:
        """One table entry a write."""
        ends = self.arrays.starts(block * 0 + 1)[1:]
        self.ops.apply_writes(tables, group, row, column, ends, block, n)

    def _write_tables(self) -> None:
        if n := self._count("writes"):
            _, group, slot, column, block = self._of("writes")
            self._write(self.tables, group, slot, column, block, n)
        if self._count("counts"):
            _, group, slot, count = self._of("counts")
            self.tables.num_blocks[group, slot] = cast_like(count, self.tables.num_blocks)

    def _run_batch(self) -> None:
        ops, backend, rows = self.ops, self.backend, self.num_rows
        lane, row, slot, query_len, spec, request, good, *expected = self._of("rows")
        n = len(row)
        mapping = backend.alloc(rows, "int64", -1)
        mapping[row] = slot
        lengths = backend.alloc(rows, "int64")
        lengths[row] = query_len
        qsl = self.arrays.starts(lengths)
        ops.gather(self.tables, mapping, rows, rows, False)
        padding = self._of("padding")[1] if self._count("padding") else None
        if padding is not None and self.zero_padding:
            self._clear(padding)
        ops.seq_lens(self.slots, mapping, qsl, rows, rows, self.seq_lens)
        self.align.preprocess(self.slots, slot, self.arrays.starts(query_len), n, self.layout.recurrent_block_size)
        self.align.precopy(self.slots, self.binding, mapping, rows)
        self._move("premoves")
        self._compare(3)
        self.align.aligned_indices(
            self.binding, self.seq_lens, rows, self.layout.recurrent_block_size, self.state_indices
        )
        slots = self.slots
        held = (slots.num_computed, slots.state_idx, slots.num_accepted, slots.total_len, slots.last_token)
        self._check_slots(lane, slot, held, expected, 4)
        if self._count("fresh"):
            of, block = self._of("fresh")
            pages = self.shadow.pages(self.shadow.array)[:, block]
            self._wrong(of, self.arrays.any(pages != 0, (0, 2)), 5)
        self._forward(lane, row, slot, spec, request, good, expected, mapping, qsl)
        if padding is not None:
            named = self.state_indices[:, padding, 0] + 0
            null = named == self._null[padding]
            blocks = (named * (null == 0) - 1 * null).reshape(-1)
            for pool in (self.pool, self.shadow):
                ops.fill_blocks(pool, blocks, len(blocks), PADDED_ROW_BYTE)
        self._compare(7, self.prints[self._frame, 0])
        if not self.is_last:
            ops.advance_computed(self.slots, mapping, qsl, rows)
            if count := self._count("neutral"):
                ops.fill_accepted(self.slots, self._of("neutral")[1], 1, count)

    def _clear(self, padding: Array) -> None:
        """A padded row becomes the null block in every column."""
        for table in self.tables.gathered:
            table[padding] = cast_like(self._null[padding][:, None] + table[:1] * 0, table)

    def _forward(
        self,
        lane: Array,
        row: Array,
        slot: Array,
        spec: Array,
        request: Array,
        good: Array,
        expected: list[Array],
        mapping: Array,
        qsl: Array,
    ) -> None:
        """The stand-in forward on the pool, and on the shadow with blocks looked up by request and column."""
        backend, rows, wire, frame = self.backend, self.num_rows, self.wire, self._frame
        of_row = backend.alloc(rows, "int64", -1)
        of_row[row] = request
        goods = backend.alloc(rows, "int64")
        goods[row] = good
        step = backend.alloc(rows, "int64", frame + 1)
        self.lane_ops.prefix_hashes(self.streams, of_row, goods, step, self.hashes)
        is_spec = backend.alloc(rows, "int64")
        is_spec[row] = spec
        if self.rank:
            self.arrays.wait(self.stream, wire.left[self.rank - 1, frame])
            arriving = wire.activations[self.rank - 1, frame]
        else:
            arriving = self._no_arrivals
        inputs = ForwardStep(mapping, qsl, self.seq_lens, self.state_indices, is_spec, self.hashes, arriving, rows)
        self.ops.forward(self.pool, self.tables, self.slots, inputs, self.damage, wire.activations[self.rank, frame])
        wire.left[self.rank, frame] = self.arrays.event(self.stream)
        self._shadow_forward(row, request, expected, inputs)
        lanes = self.damage.reshape(self.pack.count, self.rows_per_lane, -1)
        self._wrong(self._lane_ids, self.arrays.any(lanes != 0, (1, 2)), 6)
        self.prints[frame, 1] = self.arrays.total(lanes * self.damage_weights, (1, 2))

    def _shadow_forward(self, row: Array, request: Array, expected: list[Array], inputs: ForwardStep) -> None:
        start, column, accepted = expected[0], expected[1], expected[2]
        layout, meant = self.layout, self.meant_tables
        for group in layout.attention_groups:
            meant.gathered[group][row] = self.owned.persistent[group][request]
        columns = column[:, None] + self._spans[None, :]
        columns = columns.clip(0, self.owned.max_blocks - 1)
        for index, group in enumerate(layout.recurrent_groups):
            self.meant_indices[index][row] = self.owned.persistent[group][request[:, None], columns]
        seq_lens = self.seq_lens * 0
        own_slots = self.backend.alloc(self.num_rows, "int64", -1)
        own_slots[row] = row
        lengths = inputs.query_start_loc[row + 1] - inputs.query_start_loc[row]
        seq_lens[row] = cast_like(start + lengths, seq_lens)
        self.meant_slots.num_accepted[row] = cast_like(accepted, self.meant_slots.num_accepted)
        step = inputs._replace(idx_mapping=own_slots, seq_lens=seq_lens, state_indices=self.meant_indices)
        self.ops.forward(self.shadow, meant, self.meant_slots, step, self.meant_damage, self.leaving)

    def _sample(self) -> None:
        """The sampler's output of the step, and its broadcast on the side stream."""
        if not self._count("sampled"):
            return
        frame, wire = self._frame, self.wire
        _, row, *values = self._of("sampled")
        for i, value in enumerate(values):
            wire.sampled[frame, i][row] = value
        if self.num_ranks == 1:
            return
        self.arrays.wait(wire.side, self.arrays.event(self.stream))
        with self.arrays.on(wire.side):
            wire.received[frame] = wire.sampled[frame]
        wire.broadcast[frame] = self.arrays.event(wire.side)

    def finish(self) -> None:
        """Fingerprints of what is left, and whether the prefix cache's states are what it says."""
        self._frame = self.pack.frames
        self._compare(7, self.ends[0], frame=-1)
        own = np.arange(self.rows_per_lane) < self.pack.own_slots[:, None]
        for i, name in enumerate(DIGESTED):
            array = getattr(self.slots, name).reshape(self.pack.count, self.rows_per_lane, -1)
            weights = coefficients(i + 1, self.rows_per_lane, array.shape[2])[i] * own[:, :, None]
            self.ends[1 + i] = self.arrays.total(array * self.arrays.upload(weights), (1, 2))
        _, index, *_ = found = self._tables["cached"][0]
        if len(index):
            damage = damage_of_cached(self, found)
            self._wrong(found[0], self.arrays.any(damage != 0, (1,)), 8)

    def verdicts_on_host(self) -> np.ndarray:
        return np.array(self.backend.to_host(self.verdicts))

    def prints_on_host(self) -> np.ndarray:
        """int64 [frames, lanes, 2]: of the pages, and of the damage, after each forward."""
        return np.ascontiguousarray(self.backend.to_host(self.prints).transpose(0, 2, 1))

    def ends_on_host(self) -> np.ndarray:
        """int64 [1 + arrays, lanes]: of the pages and the slots at the end."""
        return np.array(self.backend.to_host(self.ends))
