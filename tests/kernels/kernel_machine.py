"""Helpers of the kernel tests: one rank's memory on one kernel set, and one request driven through it alone.

`Machine` owns the arrays and speaks host arrays at its surface, so that the same test runs on the reference,
the interpreter and a GPU. `Solo` is a request's life without a scheduler: chunked prefill, decode steps with
drafts, random acceptance, and the align kernels in between, checked by the stand-in forward after every step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stalerow.kernels.base.binding import Binding, Cache, bind_cache
from stalerow.kernels.base.layout import Layout
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.base.patterns import decode, salt
from stalerow.kernels.own.devices import backend
from stalerow.kernels.own.forward import ForwardStep
from stalerow.kernels.own.forward_classes import forward_classes
from stalerow.kernels.sets import KernelSet

SLOT_FIELDS = (
    "state_idx",
    "num_accepted",
    "num_accepted_snapshot",
    "num_computed",
    "src_col",
    "src_off",
    "total_len",
    "token_ids",
    "last_token",
)


class Machine:
    """A pool, its tables and slots, and one step's buffers, on the backend of `kernels`."""

    def __init__(
        self, layout: Layout, kernels: KernelSet, max_reqs: int = 4, max_blocks: int = 24, max_len: int = 96
    ) -> None:
        self.layout, self.kernels = layout, kernels
        self.align, self.ops, self.backend = kernels.align, kernels.ops, kernels.backend
        self.max_reqs, self.max_blocks, self.max_len = max_reqs, max_blocks, max_len
        self.pool = Pool(layout, self.backend)
        self.tables = BlockTables(layout, max_reqs, max_blocks, self.backend)
        self.slots = SlotState(max_reqs, max_len, self.backend)
        self.cache = Cache(layout, self.pool, self.tables)
        self.binding: Binding = bind_cache(self.cache, self.align.reads_slot_tables, self.backend)
        groups, columns = len(layout.recurrent_groups), layout.num_drafts + 1
        self.seq_lens = self.backend.alloc(max_reqs, "int32")
        self.state_indices = self.backend.alloc((groups, max_reqs, columns), "int32")
        self.num_units = forward_classes(layout).num_units

    def up(self, values, dtype: str):
        return self.backend.from_host(np.asarray(values, dtype=dtype))

    def idx(self, slots) -> object:
        return self.up(slots, "int64")

    def query_start_loc(self, lengths) -> object:
        ends = np.cumsum(lengths)
        loc = np.full(self.max_reqs + 1, ends[-1] if len(ends) else 0)
        loc[0] = 0
        loc[1 : len(ends) + 1] = ends
        return self.up(loc, "int32")

    def host(self, array) -> np.ndarray:
        self.backend.synchronize()
        return np.array(self.backend.to_host(array))

    def pool_bytes(self) -> np.ndarray:
        return self.host(self.pool.array)

    def contents(self) -> dict[str, np.ndarray]:
        """Every array a kernel may write, by name."""
        found = {name: self.host(getattr(self.slots, name)) for name in SLOT_FIELDS}
        found["pool"] = self.pool_bytes()
        found["seq_lens"], found["state_indices"] = self.host(self.seq_lens), self.host(self.state_indices)
        for g in range(len(self.layout.groups)):
            found[f"persistent[{g}]"] = self.host(self.tables.persistent[g])
            found[f"gathered[{g}]"] = self.host(self.tables.gathered[g])
        return found

    def load(self, values: dict[str, np.ndarray]) -> None:
        """Set arrays by the names of `contents`."""
        for name, value in values.items():
            if name in SLOT_FIELDS:
                target = getattr(self.slots, name)
            elif name == "pool":
                target = self.pool.array
            elif "[" in name:
                kind, group = name[:-1].split("[")
                target = getattr(self.tables, kind)[int(group)]
            else:
                target = getattr(self, name, None)
                target = self.tables.num_blocks if target is None else target
            self.backend.write(target, value)

    def forward(self, idx, query_start_loc, is_spec, hashes, activation_in, num_rows):
        """Run the forward on the current state indices; returns (damage, activation_out) on the host."""
        damage = self.backend.alloc((len(is_spec), self.num_units), "int64", 7)
        out = self.backend.alloc(len(is_spec), "int64", 7)
        step = ForwardStep(
            idx,
            query_start_loc,
            self.seq_lens,
            self.state_indices,
            self.up(is_spec, "int32"),
            self.up(hashes, "int64"),
            self.up(activation_in, "int64"),
            num_rows,
        )
        self.ops.forward(self.pool, self.tables, self.slots, step, damage, out)
        return self.host(damage), self.host(out)


def assert_same(ours: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, value in expected.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


class Solo:
    """One request alone on a rank.

    `late` runs postprocess as a non-last pipeline rank does: after another batch has been gathered over the
    same batch row. After a step, `crossed` says that its accepted tokens passed a block boundary, `shifted` that
    saving the state there moved it inside its own block.
    """

    def __init__(
        self,
        machine: Machine,
        rng: np.random.Generator,
        prompt: int,
        slot: int = 1,
        row: int = 0,
        late: bool = False,
    ) -> None:
        self.m, self.rng, self.prompt, self.slot, self.row, self.late = machine, rng, prompt, slot, row, late
        layout = machine.layout
        self.k, self.bs = layout.num_drafts, layout.recurrent_block_size
        self.next_block = 1
        self.rows: list[list[int]] = [[] for _ in layout.groups]
        self.hash = [0, *(int(x) for x in rng.integers(-(1 << 62), 1 << 62, size=machine.max_len + 8))]
        self.computed = 0
        self.crossed = self.shifted = False
        self.damage = np.zeros(machine.num_units, dtype=np.int64)
        self.activation = 0
        m = machine
        one = [1]
        m.ops.seed_slots(
            m.slots,
            m.up([slot], "int32"),
            m.up([-1], "int32"),
            m.up(one, "int32"),
            m.up([0], "int32"),
            m.up([prompt], "int32"),
            m.up(np.arange(m.max_len)[None] % 97, "int32"),
            1,
        )

    def run(self, max_tokens: int) -> Iterator[None]:
        """Prefill, then decode while a whole step fits into `max_tokens`; yields after every step."""
        while self.computed < self.prompt:
            self.step(self._chunk(), 1)
            yield
        while self.computed + self.k + 1 <= max_tokens:
            n = 1 + (self.k if self.rng.random() < 0.8 else int(self.rng.integers(0, self.k + 1)))
            self.step(n, int(self.rng.integers(1, n + 1)))
            yield

    def _chunk(self) -> int:
        """A prefill chunk: ends on a block boundary unless it is the last one."""
        rest = self.prompt - self.computed
        end = self.computed + int(self.rng.integers(1, rest + 1))
        if end == self.prompt:
            return rest
        aligned = end // self.bs * self.bs
        return aligned - self.computed if aligned > self.computed else min(self.bs - self.computed % self.bs, rest)

    def step(self, n: int, accepted: int) -> None:
        """One step of `n` tokens of which, if decoding, `accepted` survive."""
        m, k = self.m, self.k
        c, decoding = self.computed, self.computed >= self.prompt
        spec = decoding and k > 0
        final = c + n >= self.prompt
        self._grow_tables(c + n)
        slots = [-1] * self.row + [self.slot]
        num_rows = len(slots)
        idx, loc = m.idx(slots), m.query_start_loc([2] * self.row + [n])
        m.ops.gather(m.tables, idx, num_rows, num_rows)
        m.align.preprocess(m.slots, idx, loc, num_rows, self.bs)
        m.align.precopy(m.slots, m.binding, idx, num_rows)
        m.ops.seq_lens(m.slots, idx, loc, num_rows, num_rows, m.seq_lens)
        m.align.aligned_indices(m.binding, m.seq_lens, num_rows, self.bs, m.state_indices)
        real = accepted if decoding else n
        hashes = np.zeros((num_rows, m.max_len + 8), dtype=np.int64)
        hashes[:, : c + real + 1] = self.hash[: c + real + 1]
        hashes[:, c + real + 1 : c + n + 1] = self.rng.integers(1, 1 << 60, size=n - real)
        damage, activation = m.forward(idx, loc, [int(spec)] * num_rows, hashes, [0] * num_rows, num_rows)
        self.damage, self.activation = damage[self.row], int(activation[self.row])

        sampled = (accepted if decoding else 1) if final else 0
        rejected = n - accepted if decoding else 0
        done = m.up([[5] * (k + 1)] * num_rows, "int64"), m.up([sampled] * num_rows, "int32")
        counts = (m.slots, idx, *done, m.up([rejected] * num_rows, "int32"))
        if self.late:
            m.ops.advance_computed(m.slots, idx, loc, num_rows)
            self._gather_others(num_rows)
            m.ops.post_update(*counts, None, num_rows)
        else:
            m.ops.post_update(*counts, loc, num_rows)
        m.ops.scatter_accepted(m.slots, idx, done[1], num_rows)
        m.align.postprocess(m.slots, m.binding, idx, num_rows, self.bs)
        self.computed = c + real
        aligned = self.computed // self.bs * self.bs
        # A long prefill chunk saves no state at the boundaries inside it.
        self.crossed = aligned > c and (decoding or aligned == self.computed)
        self.shifted = self.crossed and decoding and aligned > c + 1 and aligned // self.bs == -(-(c + n) // self.bs)

    def boundary_errors(self) -> list[str]:
        """Which parts of the state at the last full boundary are not there."""
        m, layout = self.m, self.m.layout
        aligned = self.computed // self.bs * self.bs
        pages = m.pool.pages(m.pool_bytes())
        wrong = []
        for unit, e in enumerate(layout.states):
            block = self.rows[e.group][aligned // self.bs - 1]
            data = pages[e.layer, block, e.offset : e.offset + e.data_bytes]
            key = salt(e.group, e.layer, e.state)
            if not e.conv_width:
                expected = [(data, aligned)]
            else:
                window = conv_rows(data, e.conv_width, e.spec.dim, e.spec.elem_size, layout.conv_layout)
                first = aligned - layout.window
                expected = [(window[i], first + i + 1) for i in range(layout.window) if first + i >= 0]
            for data_row, tokens in expected:
                if decode(data_row, key) != (self.hash[tokens], 0):
                    wrong.append(f"unit {unit}, state after {tokens} tokens, block {block}")
        return wrong

    def _grow_tables(self, end: int) -> None:
        """Append fresh blocks as the scheduler does: columns that a long chunk skips are null."""
        m = self.m
        for g, spec in enumerate(m.layout.groups):
            row = self.rows[g]
            running = -(-end // spec.block_size) - 1
            length = running + 1 + (self.k if spec.kind == "recurrent" else 0)
            start = len(row)
            for column in range(start, length):
                skipped = spec.kind == "recurrent" and column < running
                row.append(0 if skipped else self.next_block)
                self.next_block += not skipped
            if length > start:
                fresh = row[start:]
                m.ops.apply_writes(
                    m.tables,
                    *(m.up([x], "int32") for x in (g, self.slot, start, len(fresh))),
                    m.up(fresh, "int32"),
                    1,
                )
        assert self.next_block <= m.layout.num_blocks, "the test's pool is too small"
        counts = m.host(m.tables.num_blocks)
        counts[:, self.slot] = [len(row) for row in self.rows]
        m.ops.set_num_blocks(m.tables, m.up(counts, "int32"))

    def _gather_others(self, num_rows: int) -> None:
        """Another batch of as many rows takes over the gathered tables (its slot's rows are full of block 0)."""
        others = [(self.slot + 1) % self.m.max_reqs] * num_rows
        counts = self.m.host(self.m.tables.num_blocks)
        counts[:, others[0]] = self.m.max_blocks
        self.m.ops.set_num_blocks(self.m.tables, self.m.up(counts, "int32"))
        self.m.ops.gather(self.m.tables, self.m.idx(others), num_rows, num_rows)


def conv_rows(data: np.ndarray, width: int, dim: int, elem_size: int, conv_layout: str) -> np.ndarray:
    """A conv window's bytes as uint8 [width, dim * elem_size], whatever its layout."""
    if conv_layout == "SD":
        return data.reshape(width, -1)
    return np.ascontiguousarray(data.reshape(dim, width, elem_size).swapaxes(0, 1)).reshape(width, -1)


def triton_set(name: str, device: str, tiles: int | None = None) -> KernelSet:
    """The project's Triton kernels, every operator interpreted or compiled; `tiles` splits temporal copies."""
    chosen = backend(device)
    from stalerow.kernels.align.kernels_triton import TritonAlign
    from stalerow.kernels.own.operators_triton import TritonOperators

    align = TritonAlign(name == "req-idx", chosen, tiles)
    return KernelSet(name, align, TritonOperators(chosen), chosen)
