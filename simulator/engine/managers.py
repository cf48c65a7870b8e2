"""KV managers: what one group allocates, retires and hashes for a request.

`KVCache` calls them in group order for every request; they work on the request's `Table` of their group. This
module has what both kinds share and the attention manager; `recurrent` has the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stalerow.simulator.engine.block_pool import NULL_BLOCK, BlockPool
from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.profiles import Profile
from stalerow.simulator.engine.request import Request
from stalerow.simulator.engine.rules import CacheRules
from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.engine.tables import Table


def cdiv(a: int, b: int) -> int:
    """Ceiling division."""
    return -(-a // b)


class Span(NamedTuple):
    """The tokens `start..end` that are to be computed (drafts included), with `num_slots` slots in all for attention.

    A recurrent group reserves a block for a state inside only if the span reaches `prefill_end`. reserves: the blocks
    are about to be allocated; otherwise somebody only wants to know how many there would be.
    """

    start: int
    end: int
    num_slots: int
    prefill_end: int
    reserves: bool = True


class Manager:
    """What attention and recurrent groups do alike: adopting a hit, hashing full blocks, copying a shared
    tail.

    `new_blocks` are allocations of this step that may need zeroing, `copies` the pending (source,
    destination) pairs; both endpoints of a pair hold a reference until the step is made.
    """

    def __init__(
        self,
        group: int,
        config: EngineConfig,
        profile: Profile,
        rules: CacheRules,
        pool: BlockPool,
        policies: Policies,
    ) -> None:
        self.group = group
        self.block_size = config.groups[group].block_size
        self.drops_draft_block = False
        self.new_blocks: list[int] = []
        self.copies: list[tuple[int, int]] = []
        self._config = config
        self._profile = profile
        self._rules = rules
        self._pool = pool
        self._policies = policies
        self._hashes_per_block = self.block_size // rules.hash_block_size

    def start_step(self) -> None:
        """A new schedule begins."""

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Leading tokens whose blocks the group does not need any more."""
        return 0

    def adopt_hit(self, table: Table, hit: Sequence[int], num_tokens: int) -> None:
        """Start an empty table with the blocks of a prefix hit of `num_tokens` tokens."""
        skipped = self.num_skipped_tokens(num_tokens) // self.block_size
        hit = hit[skipped:]
        self._pool.hold(hit)
        table.blocks = [NULL_BLOCK] * skipped + list(hit)
        table.num_cached = len(table.blocks)
        if self._ends_inside(hit, num_tokens):
            # The tail is shared: it is copied before this request writes into it, and hashed anew once it is
            # full.
            column = num_tokens // self.block_size
            table.partial_hit = (column, hit[-1])
            table.num_cached = column

    def cache(self, request: Request, table: Table, num_tokens: int, boundaries: Sequence[int]) -> None:
        """Hash the full blocks among the first `num_tokens` tokens that are not hashed yet."""
        first = table.num_cached or 0
        end = self._num_full_blocks(request, num_tokens)
        if first >= end:
            return
        kept = self._kept(request, first, end, boundaries)
        for column in range(first, end):
            block = table.blocks[column]
            if block == NULL_BLOCK or (kept is not None and not kept[column - first]):
                continue
            # A hash of fewer tokens (a partial tail that filled up) gives way to the full one.
            self._pool.forget(block)
            boundary = self._policies.hashes.boundary(column, self.block_size)
            prefix = request.block_hashes[boundary // self._rules.hash_block_size - 1]
            self._pool.register(block, prefix, self._entry(request, boundary))
        table.num_cached = end

    def _num_full_blocks(self, request: Request, num_tokens: int) -> int:
        hashed = len(request.block_hashes) * self._rules.hash_block_size
        return min(num_tokens, hashed) // self.block_size

    def _with_junction(self, request: Request, boundaries: Sequence[int]) -> list[int]:
        """Positions at which another request may resume: the given ones, and the end of a shared prefix."""
        wanted, junction = list(boundaries), request.shared_prefix_boundary
        if junction:
            wanted.append(junction)
            if self.drops_draft_block and self._profile.keeps_block_before_junction:
                wanted.append(junction - self.block_size)
        return wanted

    def _kept(self, request: Request, first: int, end: int, boundaries: Sequence[int]) -> list[bool] | None:
        return None

    def _entry(self, request: Request, num_tokens: int) -> CachedBlock:
        return CachedBlock(self.group, num_tokens, request.id)

    def _ends_inside(self, hit: Sequence[int], num_tokens: int) -> bool:
        return len(hit) > 0 and num_tokens % self.block_size != 0

    def _cache_tail(self, request: Request, block: int, num_tokens: int) -> int:
        """Hash a block under a boundary of `num_tokens` tokens that lies inside it (or at its end)."""
        prefix = request.block_hashes[num_tokens // self._rules.hash_block_size - 1]
        covered = self._pool.boundary_of(block)
        if covered is not None and covered < num_tokens:
            self._pool.forget(block)
        self._pool.register(block, prefix, self._entry(request, num_tokens))
        return prefix

    def _copy_on_write(self, table: Table, column: int, source: int, private: int) -> None:
        """Put a private copy of a shared tail into the table.

        The source keeps the reference of the hit, the copy gets one more, so that nothing in this step can
        hand either of them out.
        """
        table.blocks[column] = private
        self._pool.hold((private,))
        self.copies.append((source, private))


class AttentionManager(Manager):
    """Full attention: one block per `block_size` tokens, kept until the request ends."""

    def num_blocks_to_allocate(self, table: Table, span: Span, hit: Sequence[int], num_hit_tokens: int) -> int:
        """Blocks that must be free to give the request the slots of a span."""
        missing = max(cdiv(span.num_slots, self.block_size) - len(hit) - len(table.blocks), 0)
        if table.num_cached is not None:
            return missing
        if self._ends_inside(hit, num_hit_tokens):
            missing += 1
        return missing + self._pool.num_evictable(hit)

    def allocate(self, table: Table, num_tokens: int, num_slots: int) -> list[int]:
        """Give the request `num_slots` token slots; returns the block ids that the ranks must be told."""
        fresh: list[int] = []
        if table.partial_hit is not None:
            column, source = table.partial_hit
            table.partial_hit = None
            fresh = self._pool.take(1)
            self._copy_on_write(table, column, source, fresh[0])
        missing = cdiv(num_slots, self.block_size) - len(table.blocks)
        if missing > 0:
            added = self._pool.take(missing)
            table.blocks.extend(added)
            fresh = fresh + added
        self.new_blocks.extend(fresh)
        return fresh

    def retire(self, table: Table, num_settled_tokens: int) -> None:
        """Attention keeps every block."""

    def cache(self, request: Request, table: Table, num_tokens: int, boundaries: Sequence[int]) -> None:
        """Hash full blocks, and the prompt's tail where it ends inside a block."""
        super().cache(request, table, num_tokens, boundaries)
        unit = self._rules.hash_block_size
        if self.block_size == unit:
            return
        # A resend matches all but the last prompt token, unless its lookup reads on and drops a unit.
        limit = request.num_prompt_tokens - (0 if self.drops_draft_block else 1)
        boundary = min(limit // unit, len(request.block_hashes)) * unit
        column = boundary // self.block_size
        if 0 < boundary <= num_tokens and boundary % self.block_size and column < len(table.blocks):
            self._cache_tail(request, table.blocks[column], boundary)
