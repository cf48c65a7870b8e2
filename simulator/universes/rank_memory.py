"""Everything that one rank of a pack has on the device: pool and tables, and what they should be beside them."""

from __future__ import annotations

import msgspec
import numpy as np

from stalerow.kernels.base.binding import Cache, bind_cache
from stalerow.kernels.base.fingerprint import coefficients
from stalerow.kernels.base.memory import SlotState
from stalerow.kernels.own.chosen import universe_operators
from stalerow.kernels.own.forward_classes import forward_classes
from stalerow.kernels.own.universes import NEVER, Universes
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.oracle.judge import DIGESTED
from stalerow.simulator.universes.arrays import Arrays
from stalerow.simulator.universes.batches import Batches
from stalerow.simulator.universes.memory import common_pool, null_tables
from stalerow.simulator.universes.pack import Pack


class RankMemory:
    """Arrays of all universes of a rank. `shadow`, `owned` and what is `meant` belong to the oracle.

    per_frame: the pack's tables, by name (values int64 [1 + columns, n], where each frame starts). owned: each
    request's blocks, column by column, and a batch's rows of them. starts: exclusive sums of query lengths, by table.
    prints int64 [frames, 2, universes], ends int64 [1 + arrays, universes]: fingerprints; verdicts int32 [universes].
    """

    def __init__(self, pack: Pack, rank: int, kernels: KernelSet, arrays: Arrays) -> None:
        self.pack, self.rank, self.arrays = pack, rank, arrays
        self.backend = backend = kernels.backend
        self.ops, self.universe_ops = kernels.ops, universe_operators(backend)
        tables, upload = pack.ranks[rank], arrays.upload
        self.per_frame = {name: (upload(table.values), table.starts) for name, table in tables.items()}
        sizes, count = pack.sizes, pack.count
        self.rows_per_universe, self.num_rows = sizes["slots"], sizes["slots"] * count
        self.layout = layout = msgspec.structs.replace(pack.layout, num_blocks=sizes["blocks"] * count)
        self.pool, self.shadow = (common_pool(layout, sizes["blocks"], kernels) for _ in range(2))
        null = np.repeat(np.arange(count, dtype=np.int32) * sizes["blocks"], sizes["slots"])
        self.null = upload(null)
        self.tables = null_tables(layout, null, sizes["columns"], backend)
        # Tables of the oracle: a request's own columns, and a batch's rows of them.
        of_requests = np.repeat(np.arange(count, dtype=np.int32) * sizes["blocks"], pack.requests)
        self.owned = null_tables(layout, of_requests, sizes["columns"], backend, self.num_rows)
        self.owned.num_blocks[:] = sizes["columns"]
        self.slots = SlotState(self.num_rows, sizes["positions"], backend)
        self.meant_slots = SlotState(self.num_rows, 1, backend)
        cache = Cache(layout, self.pool, self.tables)
        self.binding = bind_cache(cache, kernels.align.reads_slot_tables, backend)
        columns = layout.num_drafts + 1
        groups = len(layout.recurrent_groups)
        self.state_indices = backend.alloc((groups, self.num_rows, columns), "int32")
        self.meant_indices = backend.alloc((groups, self.num_rows, columns), "int32")
        self.seq_lens = backend.alloc(self.num_rows, "int32")
        self.tokens, self.streams = upload(pack.tokens), upload(pack.hashes)
        self.hashes = backend.alloc((self.num_rows, sizes["positions"] + 1), "int64")
        self.universes = Universes(sizes["blocks"], upload(pack.own_blocks), upload(pack.ends))
        self.verdicts = backend.alloc(count, "int32", NEVER)
        units = forward_classes(layout).num_units
        self.damage, self.meant_damage = (backend.alloc((self.num_rows, units), "int64") for _ in range(2))
        self.leaving = backend.alloc(self.num_rows, "int64")
        self.damage_weights = upload(np.array(coefficients(1, self.rows_per_universe, units)[0]))
        self.prints = backend.alloc((pack.frames, 2, count), "int64")
        self.ends = backend.alloc((1 + len(DIGESTED), count), "int64")
        self.no_arrivals = backend.alloc(self.num_rows, "int64")
        self.step = backend.alloc(self.num_rows, "int64")
        most = max(tables[name].longest for name in ("owned", "writes"))
        self.counting = upload(np.arange(1, most + 1))
        self.batches = Batches(
            tables["rows"],
            tables["outcomes"],
            pack.frames,
            self.num_rows,
            sizes["columns"],
            layout.num_drafts,
            arrays,
            backend,
        )
        self.starts = {name: arrays.starts(self.per_frame[name][0][3]) for name in ("rows", "outcomes")}
