"""The KV manager of a sliding-window group: attention whose positions read the last `window` tokens only, themselves
included.

Called by `KVCache` like the attention manager. Blocks that no later position can read are given up while the request
runs, and its list holds null there; a hit needs the blocks of one window only. Public source: vLLM's
SlidingWindowManager.
"""

from __future__ import annotations

from collections.abc import Sequence

from stalerow.simulator.engine.block_pool import NULL_BLOCK, BlockPool
from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.managers import AttentionManager, Manager, Span, cdiv
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.profiles import Profile
from stalerow.simulator.engine.request import Request
from stalerow.simulator.engine.rules import CacheRules
from stalerow.simulator.engine.tables import Table


def blocks_for_hit(window: int, block_size: int, drops: bool) -> int:
    """Consecutive cached blocks that a hit needs: one window of them, and the one that it gives up if it does."""
    return cdiv(window - 1, block_size) + drops


class WindowManager(AttentionManager):
    """Attention over a window: null before it, one block per `block_size` tokens from there on."""

    def __init__(
        self,
        group: int,
        config: EngineConfig,
        profile: Profile,
        rules: CacheRules,
        pool: BlockPool,
        policies: Policies,
    ) -> None:
        super().__init__(group, config, profile, rules, pool, policies)
        self._window = config.groups[group].window
        in_flight = config.max_inflight_steps * config.max_num_batched_tokens
        # A window need not begin with a block, hence one more.
        self._most = cdiv(min(self._window - 1 + in_flight, config.max_model_len), self.block_size) + 1

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Tokens before the window of the next position."""
        return max(num_computed_tokens - self._window + 1, 0)

    def num_blocks_to_allocate(self, table: Table, span: Span, hit: Sequence[int], num_hit_tokens: int) -> int:
        """Blocks that must be free to give the request the slots of a span; a whole prompt takes no more than can be
        held at a time."""
        needed = cdiv(span.num_slots, self.block_size)
        if not span.reserves:
            needed = min(needed, self._most)
        if table.num_cached is not None:
            return max(needed - len(table.blocks), 0)
        skipped = self.num_skipped_tokens(span.start) // self.block_size
        missing = max(needed - max(skipped, len(hit) + len(table.blocks)), 0)
        return missing + self._ends_inside(hit, num_hit_tokens) + self._pool.num_evictable(hit)

    def retire(self, table: Table, num_settled_tokens: int) -> None:
        """Give up the blocks before the window of the first position that is not settled, the last one first."""
        end = min(self.num_skipped_tokens(num_settled_tokens) // self.block_size, len(table.blocks))
        freed = []
        for column in range(end - 1, -1, -1):
            if table.blocks[column] == NULL_BLOCK:
                break
            freed.append(table.blocks[column])
            table.blocks[column] = NULL_BLOCK
        self._pool.release(freed)

    def cache(self, request: Request, table: Table, num_tokens: int, boundaries: Sequence[int]) -> None:
        """Hash full blocks from which a hit can go on; there are no hits inside a block."""
        Manager.cache(self, request, table, num_tokens, boundaries)

    def _kept(self, request: Request, first: int, end: int, boundaries: Sequence[int]) -> list[bool] | None:
        alignment, size = self._rules.hit_alignment, self.block_size
        if alignment % size:
            return None
        drops, interval = self.drops_draft_block, self._config.retention_interval
        need = blocks_for_hit(self._window, size, drops)
        kept = [False] * (end - first)
        segment = (alignment if interval is None else interval) // size
        if segment:
            if need >= segment:
                return None
            for column in range(max(first, drops), end):
                kept[column - first] = (column - drops) % segment >= segment - need
        if interval is not None:
            for boundary in self._with_junction(request, boundaries):
                stop = boundary // alignment * alignment // size + drops
                for column in range(max(first, stop - need), min(end, stop)):
                    kept[column - first] = True
        return kept
