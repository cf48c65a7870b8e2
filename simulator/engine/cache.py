"""The KV cache of an engine: one pool, one manager per group, one block list per request and group.

The scheduler asks it for hits and slots; it decides whether a step fits, and hands out the lists that go on
the wire. Public source: vLLM's KVCacheManager and coordinators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stalerow.simulator.engine.block_pool import BlockPool
from stalerow.simulator.engine.config import EngineConfig, GroupConfig
from stalerow.simulator.engine.hits import Hit, HitSearch
from stalerow.simulator.engine.managers import AttentionManager, Span
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.profiles import Profile
from stalerow.simulator.engine.recurrent import RecurrentManager
from stalerow.simulator.engine.request import Request
from stalerow.simulator.engine.rules import CacheRules
from stalerow.simulator.engine.step import BlockLists
from stalerow.simulator.engine.tables import Table
from stalerow.simulator.engine.window import WindowManager


class KVCache:
    """Allocates slots for requests; every method works on all groups, in group order."""

    def __init__(self, config: EngineConfig, profile: Profile, rules: CacheRules, policies: Policies) -> None:
        self._config = config
        self._rules = rules
        self._policies = policies
        self._num_groups = len(config.groups)
        self.pool = BlockPool(config.num_blocks, self._num_groups, policies.reuse)
        self._search = HitSearch(config, rules, self.pool, policies.hits)
        self.managers = tuple(
            _manager(group)(index, config, profile, rules, self.pool, policies)
            for index, group in enumerate(config.groups)
        )
        for manager in self.managers:
            manager.drops_draft_block = self._search.drops_draft_block(manager.group)
        self.no_hit = Hit(((),) * self._num_groups, 0, 0)
        self._tables: dict[str, tuple[Table, ...]] = {}
        self._lookahead = policies.drafts.lookahead_tokens(config)
        self._replay_boundaries: dict[int, tuple[int, ...]] = {}
        self._watermark_blocks = int(config.watermark * config.num_blocks)
        self._zeroes = config.recurrent_block_size > 0

    def start_step(self) -> None:
        """A new schedule begins."""
        for manager in self.managers:
            manager.start_step()

    def longest_hit(self, request: Request) -> Hit:
        """The prefix hit that the request would start with."""
        if not self._config.enable_prefix_caching:
            return self.no_hit
        return self._search.longest(request.block_hashes, self._policies.hits.max_tokens(request))

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit: Hit | None = None, beside_others: bool = False
    ) -> BlockLists | None:
        """Make room for `num_new_tokens` more tokens (drafts included) and the drafter's lookahead.

        Returns the new block ids per group, None if the pool does not have them; states that are no longer
        needed are given up in either case. At an admission `hit` is the prefix hit, and `beside_others` says
        whether other requests run, which the watermark protects.
        """
        admission = hit is not None
        hit = hit or self.no_hit
        tables = self._tables_of(request)
        num_computed = min(request.num_computed_tokens + hit.num_tokens, self._config.max_model_len)
        watermark = self._watermark_blocks if admission and beside_others else 0
        prefill_end = 0 if self._rules.checkpoints_every_chunk else request.prefill_end
        if admission and self._config.reserve_full_isl:
            full = min(request.num_tokens, self._config.max_model_len)
            span = Span(num_computed, full, full, prefill_end, reserves=False)
            if self._num_missing(tables, span, hit) + watermark > self.pool.num_free_blocks:
                return None
        num_tokens = num_computed + num_new_tokens
        num_slots = min(num_tokens + self._lookahead, self._config.max_model_len)
        settled = self._policies.frees.settled_tokens(num_computed, request)
        for manager, table in zip(self.managers, tables):
            manager.retire(table, settled)
        span = Span(num_computed, num_tokens, num_slots, prefill_end)
        if self._num_missing(tables, span, hit) + watermark > self.pool.num_free_blocks:
            return None
        if hit.num_tokens:
            for manager, table, blocks in zip(self.managers, tables, hit.blocks):
                manager.adopt_hit(table, blocks, hit.num_tokens)
        new = [tuple(manager.allocate(table, num_tokens, num_slots)) for manager, table in zip(self.managers, tables)]
        # Drafts may be rejected, so only known tokens are hashed.
        self.cache_blocks(request, self._policies.hashes.certain_tokens(num_tokens, request.num_tokens))
        return tuple(new)

    def _tables_of(self, request: Request) -> tuple[Table, ...]:
        tables = self._tables.get(request.id)
        if tables is None:
            tables = self._tables[request.id] = tuple(Table() for _ in self.managers)
        return tables

    def _num_missing(self, tables: Sequence[Table], span: Span, hit: Hit) -> int:
        missing = 0
        for manager, table, blocks in zip(self.managers, tables, hit.blocks):
            missing += manager.num_blocks_to_allocate(table, span, blocks, hit.num_tokens)
        return missing

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Hash what can be hit of the request's first `num_tokens` tokens."""
        if not self._config.enable_prefix_caching:
            return
        boundaries = self._replay_boundaries.get(request.num_prompt_tokens)
        if boundaries is None:
            boundaries = self._policies.retention.replay_boundaries(request.num_prompt_tokens, self._rules)
            self._replay_boundaries[request.num_prompt_tokens] = boundaries
        for manager, table in zip(self.managers, self._tables[request.id]):
            cacheable = self._cacheable_tokens(num_tokens, manager.drops_draft_block, manager.block_size)
            manager.cache(request, table, cacheable, boundaries)

    def _cacheable_tokens(self, num_tokens: int, drops_draft_block: bool, block_size: int) -> int:
        """The largest prefix of `num_tokens` tokens that a hit can match, dropped block included."""
        if self._num_groups == 1:
            return num_tokens
        unit = self._rules.scheduler_block_size
        aligned = num_tokens if self._rules.partial_hits else num_tokens // unit * unit
        if drops_draft_block and aligned > 0:
            return min(num_tokens, aligned + block_size)
        return aligned

    def free(self, request: Request) -> None:
        """Give up all blocks of the request, last column first (it is handed out again first)."""
        for table in self._tables.pop(request.id, ()):
            self._policies.frees.release(self.pool, reversed(table.blocks), request)

    def take_blocks_to_zero(self) -> tuple[int, ...]:
        """Drain the blocks allocated since the last call that the ranks must zero."""
        attention: list[int] = []
        recurrent: list[int] = []
        for manager in self.managers:
            (recurrent if isinstance(manager, RecurrentManager) else attention).extend(manager.new_blocks)
            manager.new_blocks = []
        if not self._zeroes:
            return ()
        return tuple(self._policies.zeroing.blocks_to_zero(attention, recurrent))

    def take_copies(self) -> tuple[tuple[int, int], ...]:
        """Drain the pending block copies; their ends may be handed out again from now on."""
        copies = tuple([pair for manager in self.managers for pair in manager.copies])
        if copies:
            for manager in self.managers:
                manager.copies = []
            self.pool.release([block for pair in copies for block in pair])
        return copies

    def block_ids(self, request: Request) -> BlockLists:
        """The request's block lists, per group."""
        return tuple(tuple(table.blocks) for table in self._tables[request.id])

    def block_lists(self) -> Mapping[str, BlockLists]:
        """An immutable snapshot of the lists of every request that has blocks."""
        lists = {}
        for request_id, tables in self._tables.items():
            blocks = tuple([tuple(table.blocks) for table in tables])
            if any(blocks):
                lists[request_id] = blocks
        return MappingProxyType(lists)


def _manager(group: GroupConfig) -> type[RecurrentManager] | type[AttentionManager]:
    if group.kind == "recurrent":
        return RecurrentManager
    return WindowManager if group.window else AttentionManager
