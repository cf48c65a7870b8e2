"""One rank of all universes: how each recorded kind of operation is launched and checked, all universes at once."""

from __future__ import annotations

import numpy as np

from stalerow.kernels.base.device import Array
from stalerow.kernels.base.fingerprint import coefficients
from stalerow.kernels.base.memory import POISON, BlockTables
from stalerow.kernels.own.operators import ForwardStep
from stalerow.kernels.own.universes import Moves
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.oracle.judge import DIGESTED
from stalerow.simulator.rank.base import PADDED_ROW_BYTE
from stalerow.simulator.universes.arrays import Arrays
from stalerow.simulator.universes.cached import damage_of_cached
from stalerow.simulator.universes.memory import Wire, cast_like
from stalerow.simulator.universes.pack import Pack
from stalerow.simulator.universes.rank_memory import RankMemory

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


ABSENT = -(1 << 30)
"""Added to a block's number, makes it no block's."""


class RankGroup(RankMemory):
    """Rank `rank` of every universe of a pack."""

    def __init__(
        self,
        pack: Pack,
        rank: int,
        num_ranks: int,
        kernels: KernelSet,
        arrays: Arrays,
        wire: Wire,
    ) -> None:
        super().__init__(pack, rank, kernels, arrays)
        self.num_ranks, self.wire = num_ranks, wire
        self.align = kernels.align
        self.is_last = rank == num_ranks - 1
        self.stream = arrays.stream()

    def begin(self, frame: int) -> None:
        """What follows belongs to this frame."""
        self._frame, self.unchecked = frame, False

    def settle(self) -> None:
        """Fills and copies of pages that follow each other are compared once."""
        if self.unchecked:
            self.unchecked = False
            self._compare(2)

    def _of(self, name: str) -> tuple[Array, ...]:
        """The frame's rows of a table: universe, then the columns of `tape.COLUMNS`, int64 [n] each."""
        values, starts = self.per_frame[name]
        return tuple(values[:, starts[self._frame] : starts[self._frame + 1]])

    def _count(self, name: str) -> int:
        starts = self.per_frame[name][1]
        return starts[self._frame + 1] - starts[self._frame]

    def _number(self, check: int) -> int:
        return self._frame * len(CHECKS) + check

    def _compare(self, check: int, prints: Array | None = None, frame: int | None = None) -> None:
        frame = self._frame if frame is None else frame
        number = self._number(check)
        self.universe_ops.check_pages(self.universes, self.pool, self.shadow, frame, number, self.verdicts, prints)

    @property
    def _outputs_step(self) -> int:
        """Frame of the output that is taken: this step's (last rank) or the one P steps ago."""
        return self._frame if self.is_last else self._frame - self.num_ranks

    def post_update(self) -> None:
        n, of = self._count("outcomes"), self._outputs_step
        if not n:
            return
        if not self.is_last:
            self.arrays.wait(self.stream, self.wire.broadcast[of])
        universe, row, slot = self._of("outcomes")[:3]
        taken = (self.wire.sampled if self.is_last else self.wire.received)[of][:, row]
        counts, rejected, tokens = taken[0], taken[1], self.arrays.swapped(taken[2:])
        qsl = self._compact("outcomes") if self.is_last else None
        self.ops.post_update(self.slots, slot, tokens, counts, rejected, qsl, n)
        self.ops.scatter_accepted(self.slots, slot, counts, n)
        held = (self.slots.num_computed, self.slots.total_len, self.slots.last_token)
        self._check_counts("outcomes", 4, held, universe, slot, 0)

    def postprocess(self) -> None:
        taken, size = self.batches.outcomes[self._frame], self.layout.recurrent_block_size
        if n := self._count("outcomes"):
            self.align.postprocess(self.slots, self.binding, taken, self.num_rows, size, None)
        self._move("postmoves")
        if n or self._count("postmoves"):
            self._compare(1)

    def _compact(self, name: str) -> Array:
        """Where each present row's tokens start: int64 [n + 1]."""
        values, starts = self.starts[name], self.per_frame[name][1]
        first, last = starts[self._frame], starts[self._frame + 1]
        return values[first : last + 1] - values[first]

    def _check_counts(
        self, name: str, column: int, held: tuple[Array, ...], universe: Array, slot: Array, check: int
    ) -> None:
        values, starts = self.per_frame[name]
        expected = values[column : column + len(held), starts[self._frame] : starts[self._frame + 1]]
        self.universe_ops.check_counts(held, slot, expected, universe, self.verdicts, self._number(check))

    def _move(self, name: str) -> None:
        if self._count(name):
            self.universe_ops.move_states(self.shadow, Moves(*self._of(name)[1:]))

    def admit(self) -> None:
        """Blocks change hands."""
        if n := self._count("owned"):
            _, group, request, column, block = self._of("owned")
            self._write(self.owned, group, request, column, block, n)
        self._fill("poisoned", POISON)

    def zero(self) -> None:
        self._fill("zeroed", 0)

    def _fill(self, name: str, byte: int) -> None:
        if count := self._count(name):
            _, block = self._of(name)
            for pool in (self.pool, self.shadow):
                self.ops.fill_blocks(pool, block, count, byte)
            self.unchecked = True

    def seed(self) -> None:
        _, slot, state_idx, accepted, computed, total, request = self._of("seeds")
        tokens = self.tokens[request]
        self.ops.seed_slots(self.slots, slot, state_idx, accepted, computed, total, tokens, self._count("seeds"))

    def copy_blocks(self) -> None:
        _, source, target = self._of("pages")
        for pool in (self.pool, self.shadow):
            self.ops.copy_blocks(pool, source, target, self._count("pages"))
        self.unchecked = True

    def _write(self, tables: BlockTables, group: Array, row: Array, column: Array, block: Array, n: int) -> None:
        """One table entry a write."""
        self.ops.apply_writes(tables, group, row, column, self.counting[:n], block, n)

    def writes(self) -> None:
        if n := self._count("writes"):
            _, group, slot, column, block = self._of("writes")
            self._write(self.tables, group, slot, column, block, n)

    def block_counts(self) -> None:
        if self._count("counts"):
            _, group, slot, count = self._of("counts")
            self.tables.num_blocks[group, slot] = cast_like(count, self.tables.num_blocks)

    @property
    def _batch(self) -> tuple[Array, Array]:
        """The frame's idx_mapping and query_start_loc."""
        return self.batches.mapping[self._frame], self.batches.query_start_loc[self._frame]

    def gather(self) -> None:
        (mapping, qsl), rows = self._batch, self.num_rows
        self.ops.gather(self.tables, mapping, rows, rows, False)
        if self._count("padding") and self.pack.zero_padding:
            padding = self._of("padding")[1]
            for table in self.tables.gathered:
                table[padding] = self.null[padding][:, None]
        self.ops.seq_lens(self.slots, mapping, qsl, rows, rows, self.seq_lens)

    def preprocess(self) -> None:
        slot, size = self._of("rows")[2], self.layout.recurrent_block_size
        self.align.preprocess(self.slots, slot, self._compact("rows"), len(slot), size)

    def precopy(self) -> None:
        self.align.precopy(self.slots, self.binding, self._batch[0], self.num_rows)
        self._move("premoves")
        self._compare(3)

    def indices(self) -> None:
        size = self.layout.recurrent_block_size
        self.align.aligned_indices(self.binding, self.seq_lens, self.num_rows, size, self.state_indices)

    def forward(self) -> None:
        """The stand-in forward, after what it is about to use has been checked."""
        slots, frame = self.slots, self._frame
        universe, _, slot = self._of("rows")[:3]
        held = (slots.num_computed, slots.state_idx, slots.num_accepted, slots.total_len, slots.last_token)
        self._check_counts("rows", 7, held, universe, slot, 4)
        if self._count("fresh"):
            of, block = self._of("fresh")
            pages = self.shadow.pages(self.shadow.array)[:, block]
            self.arrays.least(self.verdicts, of, self.arrays.any(pages != 0, (0, 2)), self._number(5))
        self._forward(*self._batch)
        if self._count("padding"):
            self._write_padding(self._of("padding")[1])
        self._compare(7, self.prints[frame, 0])

    def advance(self) -> None:
        mapping, qsl = self._batch
        self.ops.advance_computed(self.slots, mapping, qsl, self.num_rows)

    def fill_accepted(self) -> None:
        self.ops.fill_accepted(self.slots, self._of("neutral")[1], 1, self._count("neutral"))

    def free(self) -> None:
        """Ownership ends on the hosts, which were recorded; nothing of it reaches a device."""

    def _write_padding(self, padding: Array) -> None:
        """Padded rows under a captured graph write the blocks that their indices name; they are meant to be null."""
        named = self.state_indices[:, padding, 0]
        blocks = (named + (named == self.null[padding]) * ABSENT).reshape(-1).clip(-1)
        self.ops.fill_blocks(self.pool, blocks, len(blocks), PADDED_ROW_BYTE)

    def _forward(self, mapping: Array, qsl: Array) -> None:
        """The stand-in forward on the pool, and on the shadow with blocks looked up by request and column."""
        rows, wire, frame, batches = self.num_rows, self.wire, self._frame, self.batches
        self.step[:] = frame + 1
        request, spec = batches.request[frame], batches.spec[frame]
        self.universe_ops.prefix_hashes(self.streams, request, batches.good[frame], self.step, self.hashes)
        if self.rank:
            self.arrays.wait(self.stream, wire.left[self.rank - 1, frame])
            arriving = wire.activations[self.rank - 1, frame]
        else:
            arriving = self.no_arrivals
        inputs = ForwardStep(mapping, qsl, self.seq_lens, self.state_indices, spec, self.hashes, arriving, rows)
        self.ops.forward(self.pool, self.tables, self.slots, inputs, self.damage, wire.activations[self.rank, frame])
        wire.left[self.rank, frame] = self.arrays.event(self.stream)
        self._shadow_forward(inputs)
        prints = self.prints[frame, 1]
        self.universe_ops.check_damage(self.damage, self.damage_weights, self.verdicts, self._number(6), prints)

    def _shadow_forward(self, inputs: ForwardStep) -> None:
        layout, owned, frame, batches = self.layout, self.owned, self._frame, self.batches
        self.ops.gather(owned, batches.request[frame], self.num_rows, self.num_rows, False)
        for index, group in enumerate(layout.recurrent_groups):
            self.meant_indices[index] = self.arrays.along(owned.gathered[group], batches.columns[frame])
        self.meant_slots.num_accepted[:] = batches.accepted[frame]
        step = inputs._replace(
            idx_mapping=batches.own[frame], seq_lens=batches.seq_lens[frame], state_indices=self.meant_indices
        )
        self.ops.forward(self.shadow, owned, self.meant_slots, step, self.meant_damage, self.leaving)

    def sample(self) -> None:
        """The sampler's output of the step goes to the other ranks on the side stream."""
        frame, wire = self._frame, self.wire
        if self.num_ranks == 1 or not self._count("sampled"):
            return
        self.arrays.wait(wire.side, self.arrays.event(self.stream))
        with self.arrays.on(wire.side):
            wire.received[frame] = wire.sampled[frame]
        wire.broadcast[frame] = self.arrays.event(wire.side)

    def finish(self) -> None:
        """Fingerprints of what is left, and whether the prefix cache's states are what it says."""
        self._frame = self.pack.frames
        self._compare(7, self.ends[0], frame=-1)
        own = np.arange(self.rows_per_universe) < self.pack.own_slots[:, None]
        for i, name in enumerate(DIGESTED):
            array = getattr(self.slots, name).reshape(self.pack.count, self.rows_per_universe, -1)
            weights = coefficients(i + 1, self.rows_per_universe, array.shape[2])[i] * own[:, :, None]
            self.ends[1 + i] = self.arrays.total(array * self.arrays.upload(weights), (1, 2))
        _, index, *_ = found = self.per_frame["cached"][0]
        if len(index):
            damage = damage_of_cached(self, found)
            self.arrays.least(self.verdicts, found[0], self.arrays.any(damage != 0, (1,)), self._number(8))

    def verdicts_on_host(self) -> np.ndarray:
        return np.array(self.backend.to_host(self.verdicts))

    def prints_on_host(self) -> np.ndarray:
        """int64 [frames, universes, 2]: of the pages, and of the damage, after each forward."""
        return np.ascontiguousarray(self.backend.to_host(self.prints).transpose(0, 2, 1))

    def ends_on_host(self) -> np.ndarray:
        """int64 [1 + arrays, universes]: of the pages and the slots at the end."""
        return np.array(self.backend.to_host(self.ends))
