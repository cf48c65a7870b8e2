"""The KV manager of a recurrent group in align mode: one running state, its speculative columns, saved
boundaries.

Called by `KVCache` like the attention manager. The list of a request is indexed by position (column c holds
the state after (c + 1) * block_size tokens), but only few columns hold a block: long chunks skip columns, old
states are retired, and speculative blocks move right instead of being allocated anew. Public source: vLLM's
MambaManager.
"""

from __future__ import annotations

from collections.abc import Sequence

from stalerow.simulator.engine.block_pool import NULL_BLOCK, BlockPool
from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.managers import Manager, Span, cdiv
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.profiles import Profile
from stalerow.simulator.engine.request import Request
from stalerow.simulator.engine.rules import CacheRules, checkpoint_column
from stalerow.simulator.engine.tables import Table


class RecurrentManager(Manager):
    """Running column r = cdiv(tokens, block_size) - 1, with `num_speculative_blocks` columns after it."""

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
        # Prefixes hashed in this very schedule: nobody can hit them, their states are not computed yet.
        self.cached_this_step: set[int] = set()
        # Columns after the running one, one per draft.
        self.num_speculative_blocks = policies.drafts.speculative_blocks(config)

    def start_step(self) -> None:
        """A new schedule begins: states hashed in the last one can be hit from now on."""
        self.cached_this_step.clear()

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Only the state of the last computed token is needed."""
        return num_computed_tokens - 1

    def num_blocks_to_allocate(self, table: Table, span: Span, hit: Sequence[int], num_hit_tokens: int) -> int:
        """Blocks that must be free to compute a span; more than the pool has if the hit is too fresh.

        A span that is about to be allocated decides whether its chunk saves a state on its way. Can be negative
        where the list is longer than needed, which vLLM offsets against the other groups.
        """
        if hit and self._policies.hits.too_fresh(self._pool.prefix_of(hit[-1]), self.cached_this_step):
            return self._pool.num_blocks + 1
        missing = self._num_columns(span.end, span.num_slots) - len(hit) - len(table.blocks)
        partial = self._ends_inside(hit, num_hit_tokens) or table.partial_hit is not None
        if partial:
            missing = max(missing, 0) + 1
        checkpoint = self._checkpoint(table, span)
        if span.reserves:
            table.checkpoint = checkpoint
        if missing > 0:
            # Skipped columns are null, and speculative blocks are re-used once they exist.
            most = 1 + partial + (checkpoint is not None) + (0 if table.allocated else self.num_speculative_blocks)
            missing = min(missing, most)
        return missing + self._pool.num_evictable(hit)

    def _checkpoint(self, table: Table, span: Span) -> tuple[int, int] | None:
        """The state that a chunk saves on its way, as (tokens, column), where that needs a block of its own.

        Not where the column holds a state already, unless a speculative block stands there that would move on.
        """
        position = self._rules.checkpoint_inside(span.start, span.end)
        if not position or span.end < span.prefill_end:
            return None
        column, length = checkpoint_column(span.end, self.block_size), len(table.blocks)
        speculative = table.allocated and column >= length - self.num_speculative_blocks
        if column < 0 or (column < length and table.blocks[column] != NULL_BLOCK and not speculative):
            return None
        return position, column

    def _num_columns(self, num_tokens: int, num_slots: int) -> int:
        tokens = self._policies.drafts.recurrent_tokens(num_tokens, num_slots)
        return cdiv(tokens, self.block_size) + self.num_speculative_blocks

    def allocate(self, table: Table, num_tokens: int, num_slots: int) -> list[int]:
        """Extend the list to the running column of `num_tokens` tokens and its speculative columns.

        Returns the ids to append to the ranks' rows, relocated ones included.
        """
        num_columns = self._num_columns(num_tokens, num_slots)
        saves = table.checkpoint is not None
        if num_columns <= len(table.blocks) and table.partial_hit is None and not saves:
            table.allocated = True
            return []
        length = len(table.blocks)
        running = num_columns - self.num_speculative_blocks - 1
        if table.allocated:
            table.previous_state_column = length - 1 - self.num_speculative_blocks
        elif length:
            table.previous_state_column = length - 1
        # A block that the worker saves a state to is allocated, or stays where it is.
        skipped = running - saves
        table.blocks.extend([NULL_BLOCK] * (skipped - length))
        if table.allocated:
            self._relocate(table, length, skipped)
        fresh = self._take_missing(table, num_columns)
        appended = table.blocks[length:]
        if table.partial_hit is not None:
            appended = self._copy_tail(table, fresh.pop(0)) + appended
        table.blocks.extend(fresh)
        table.allocated = True
        return appended + fresh

    def _relocate(self, table: Table, length: int, end: int) -> None:
        """Move the unused speculative blocks left of column `end` to the end of the list."""
        for column in self._policies.drafts.relocated(length, end, self.num_speculative_blocks):
            table.blocks.append(table.blocks[column])
            table.blocks[column] = NULL_BLOCK

    def _take_missing(self, table: Table, num_columns: int) -> list[int]:
        missing = max(num_columns - len(table.blocks), 0)
        return self._pool.take(missing + (table.partial_hit is not None))

    def _copy_tail(self, table: Table, private: int) -> list[int]:
        """Keep the state of a partial tail from being overwritten; returns ids that the ranks must be told.

        A request that has just hit the tail gets a private copy. One that hashed its own tail keeps writing
        in place, since its row on the ranks is append-only: the copy takes over the hash.
        """
        assert table.partial_hit is not None
        column, source = table.partial_hit
        table.partial_hit = None
        if not table.allocated:
            self._copy_on_write(table, column, source, private)
            return [private]
        self._pool.move_hashes(source, private)
        self._pool.hold((source,))
        self.copies.append((source, private))
        prefix = self._pool.prefix_of(private)
        if prefix is not None:
            self.cached_this_step.add(prefix)
        return []

    def retire(self, table: Table, num_settled_tokens: int) -> None:
        """Give up states below the last settled token, and the state of two allocations ago.

        The latest but one allocation is still the source of the copy into the running column.
        """
        end = min(self._policies.frees.retired_columns(num_settled_tokens, self.block_size), len(table.blocks))
        if end > table.num_retired:
            freed = []
            for column in range(end - 1, table.num_retired - 1, -1):
                if table.blocks[column] != NULL_BLOCK:
                    freed.append(table.blocks[column])
                    table.blocks[column] = NULL_BLOCK
            self._pool.release(freed)
            table.num_retired = end
        column_ = table.previous_state_column
        if column_ is not None and column_ < cdiv(num_settled_tokens, self.block_size) - 1:
            block = table.blocks[column_]
            if block != NULL_BLOCK:
                self._pool.release((block,))
                table.blocks[column_] = NULL_BLOCK

    def cache(self, request: Request, table: Table, num_tokens: int, boundaries: Sequence[int]) -> None:
        """Hash the retained boundary states, and the state at the prompt's last reusable hash boundary."""
        first = table.num_cached or 0
        super().cache(request, table, num_tokens, boundaries)
        end = table.num_cached or 0
        if table.checkpoint is not None:
            prefix = self._cache_inside(request, table, *table.checkpoint)
        else:
            prefix = self._cache_checkpoint(request, table, num_tokens)
        if prefix is not None:
            self.cached_this_step.add(prefix)
        if first >= end:
            return
        for block in table.blocks[first:end]:
            found = self._pool.prefix_of(block)
            if found is not None:
                self.cached_this_step.add(found)

    def _kept(self, request: Request, first: int, end: int, boundaries: Sequence[int]) -> list[bool] | None:
        wanted = self._with_junction(request, boundaries)
        return self._policies.retention.keep(
            first, end, self.block_size, self._config.retention_interval, wanted, self._rules.hit_alignment
        )

    def _cache_inside(self, request: Request, table: Table, num_tokens: int, column: int) -> int | None:
        """Hash the state after `num_tokens` tokens that the chunk saves on its way, if a replay can resume there.

        Its block has no other hash then, and none at all otherwise: it does not hold the state of a full block.
        """
        block = table.blocks[column]
        if block == NULL_BLOCK:
            return None
        useful = num_tokens == request.shared_prefix_boundary or num_tokens == self._rules.checkpoint_position(
            request.num_prompt_tokens, self._rules.hit_alignment
        )
        if not useful and num_tokens % self.block_size == 0:
            boundary = num_tokens // self.block_size
            kept = self._policies.retention.keep(
                boundary - 1, boundary, self.block_size, self._config.retention_interval, (), self._rules.hit_alignment
            )
            useful = kept is None or kept[0]
        if not useful:
            self._pool.forget(block)
            return None
        if self._pool.boundary_of(block) == num_tokens:
            return None
        self._pool.forget(block)
        prefix = request.block_hashes[num_tokens // self._rules.hash_block_size - 1]
        self._pool.register(block, prefix, self._entry(request, num_tokens))
        return prefix

    def _cache_checkpoint(self, request: Request, table: Table, num_tokens: int) -> int | None:
        """Hash the state after exactly `num_tokens` tokens if a replay can resume there."""
        unit = self._rules.hash_block_size
        if num_tokens <= 0 or num_tokens % unit:
            return None
        junction = (
            self._rules.shared_prefix_checkpoint
            and num_tokens == request.shared_prefix_boundary
            and request.num_computed_tokens < num_tokens <= request.num_prompt_tokens
        )
        if num_tokens != self._rules.checkpoint_position(request.num_prompt_tokens, unit) and not junction:
            return None
        column = cdiv(num_tokens, self.block_size) - 1
        if column >= len(table.blocks) or table.blocks[column] == NULL_BLOCK:
            return None
        block = table.blocks[column]
        if not self._profile.rehashes_partial_tail and self._pool.boundary_of(block) == num_tokens:
            return None
        prefix = self._cache_tail(request, block, num_tokens)
        if num_tokens % self.block_size:
            # The next step writes this block: `allocate` must save the state first.
            table.partial_hit = (column, block)
            table.num_cached = column
        return prefix
