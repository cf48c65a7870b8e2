"""The block pool: who may use which page, in which order pages are handed out again, and what the prefix
cache holds.

Used by the KV managers; a block is its id. The free queue is taken from the front: blocks without a prefix
hash are put back at the front (last in, first out), blocks with one at the end (first in, first out, so that
old prefixes are evicted first). Public source: vLLM's BlockPool, 0.32 and 0.33 alike.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from stalerow.simulator.engine.reuse import ReusePolicy
from stalerow.simulator.engine.step import CachedBlock

NULL_BLOCK = 0


class BlockPool:
    """Reference counts, free queue and prefix-hash index of `num_blocks` equal blocks; block 0 is never
    handed out.

    A block can carry several hashes of its group: its first, with the boundary that it serves, and others
    that cover less of it (a partial tail of the same prefix).
    """

    def __init__(self, num_blocks: int, num_groups: int, reuse: ReusePolicy, caching: bool = True) -> None:
        self.num_blocks = num_blocks
        self._caching = caching
        self._reuse = reuse
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))
        self._ref_counts = [0] * num_blocks
        self._index: tuple[dict[int, list[int]], ...] = tuple({} for _ in range(num_groups))
        self._first_hash: dict[int, int] = {}
        self._more_hashes: dict[int, list[int]] = {}
        self._cached: dict[int, CachedBlock] = {}
        self._snapshot: Mapping[int, CachedBlock] | None = None

    @property
    def num_free_blocks(self) -> int:
        """Blocks in the free queue, those that still carry a hash included."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks, the null block left out, that are not free."""
        return 1.0 - len(self._free) / (self.num_blocks - 1)

    @property
    def free_queue(self) -> tuple[int, ...]:
        """Free block ids, next to be handed out first."""
        return tuple(self._free)

    def ref_count(self, block: int) -> int:
        """How many requests (and pending copies) hold the block."""
        return self._ref_counts[block]

    def num_evictable(self, blocks: Sequence[int]) -> int:
        """How many of the blocks sit in the free queue."""
        if not blocks:
            return 0
        counts = self._ref_counts
        return sum(1 for block in blocks if block != NULL_BLOCK and counts[block] == 0)

    def take(self, count: int) -> list[int]:
        """Hand out the first `count` free blocks, without their hashes. ValueError if there are fewer."""
        if count > len(self._free):
            raise ValueError(f"{count} blocks wanted, {len(self._free)} free; check num_free_blocks before taking")
        if count == 0:
            return []
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            if block in self._cached:
                self.forget(block)
            self._ref_counts[block] = 1
        return taken

    def hold(self, blocks: Iterable[int]) -> None:
        """Add a reference to each block; a cached block that was free leaves the queue."""
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            if self._ref_counts[block] == 0:
                del self._free[block]
            self._ref_counts[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Drop a reference to each block, in the order in which they should be handed out again."""
        unhashed: list[int] = []
        hashed: list[int] = []
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            self._ref_counts[block] -= 1
            if self._ref_counts[block] == 0:
                (hashed if block in self._cached else unhashed).append(block)
        self._reuse.put_back(self._free, unhashed, hashed)

    def lookup(self, prefix: int, groups: Sequence[int]) -> list[int] | None:
        """One cached block per group for the prefix, the first one cached; None if any group has none."""
        found = []
        for group in groups:
            blocks = self._index[group].get(prefix)
            if not blocks:
                return None
            found.append(blocks[0])
        return found

    def prefix_of(self, block: int) -> int | None:
        """The first prefix hash of the block."""
        return self._first_hash.get(block)

    def boundary_of(self, block: int) -> int | None:
        """Tokens covered by the first prefix hash of the block."""
        entry = self._cached.get(block)
        return entry.num_tokens if entry else None

    def register(self, block: int, prefix: int, entry: CachedBlock) -> None:
        """Let the block serve the prefix. A block that has a hash already keeps it as its first one."""
        holders = self._index[entry.group].setdefault(prefix, [])
        if block in holders:
            return
        holders.append(block)
        if block in self._cached:
            self._more_hashes.setdefault(block, []).append(prefix)
            return
        self._first_hash[block] = prefix
        self._cached[block] = entry
        self._snapshot = None

    def forget(self, block: int) -> list[int]:
        """Remove every hash of the block; returns them, the first one first."""
        entry = self._cached.pop(block, None)
        if entry is None:
            return []
        self._snapshot = None
        prefixes = [self._first_hash.pop(block), *self._more_hashes.pop(block, ())]
        index = self._index[entry.group]
        for prefix in prefixes:
            holders = index[prefix]
            holders.remove(block)
            if not holders:
                del index[prefix]
        return prefixes

    def reset(self) -> bool:
        """Forget every hash, if no block is in use; whether that was so. The free queue keeps its order."""
        if len(self._free) < self.num_blocks - 1:
            return False
        for block in list(self._cached):
            self.forget(block)
        return True

    def move_hashes(self, source: int, destination: int) -> None:
        """Let `destination` serve every prefix that `source` served."""
        entry = self._cached.get(source)
        if entry is None:
            return
        for prefix in self.forget(source):
            self.register(destination, prefix, entry)

    def cached_blocks(self) -> Mapping[int, CachedBlock]:
        """Every block that carries a hash now; an immutable snapshot, shared while nothing changes."""
        if self._snapshot is None:
            self._snapshot = MappingProxyType(dict(self._cached))
        return self._snapshot
