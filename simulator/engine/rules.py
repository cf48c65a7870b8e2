"""Prefix-cache rules that follow from the configuration and the release together.

Computed once per engine; read by the managers, the hit search and the chunk policy.
"""

from __future__ import annotations

from dataclasses import dataclass

from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.profiles import Profile


@dataclass(frozen=True, slots=True)
class CacheRules:
    """Sizes in tokens.

    partial_hits: hits may end inside a block, at a hash boundary (some recurrent block is larger than a hash
        block).
    hit_alignment: every hit length is a multiple of it.
    hash_lookahead: tokens after a block that its hash covers.
    drop_draft_block: a hit gives up its last unit, whose draft KV depends on a token outside the prefix.
    drop_groups: groups whose lookup does so (those with draft layers; all if none is marked).
    shared_prefix_checkpoint: a junction inside a block may keep a state too.
    state_block_size: of the recurrent groups, 0 without.
    checkpoint_alignment: see `EngineConfig.prefill_checkpoint_alignment`.
    checkpoints_every_chunk: chunks before the last save a state inside too, where retention keeps more than the
        replay boundaries.
    """

    scheduler_block_size: int
    hash_block_size: int
    partial_hits: bool
    hit_alignment: int
    hash_lookahead: int
    drop_draft_block: bool
    drop_groups: frozenset[int]
    shared_prefix_checkpoint: bool
    state_block_size: int
    checkpoint_alignment: int | None
    checkpoints_every_chunk: bool

    @classmethod
    def of(cls, config: EngineConfig, profile: Profile) -> CacheRules:
        """The rules for one engine."""
        drafts = config.num_speculative_tokens > 0 and config.drafter == "mtp" and config.drop_draft_block
        lookahead = drafts and config.lookahead_hashes and profile.lookahead_hashes and config.enable_prefix_caching
        drop = drafts and not lookahead
        marked = frozenset(i for i, group in enumerate(config.groups) if group.draft)
        # Grouping marks the drafter's group only for as long as drafts need protection at all.
        draft_groups = (marked or frozenset(range(len(config.groups)))) if drop else marked if drafts else frozenset()
        partial = (
            config.enable_prefix_caching
            and len(config.groups) > 1
            and config.recurrent_block_size > config.hash_block_size
            # Windows are looked up by whole blocks.
            and all(g.block_size == config.hash_block_size for g in config.groups if g.window)
        )
        return cls(
            scheduler_block_size=config.scheduler_block_size,
            hash_block_size=config.hash_block_size,
            partial_hits=partial,
            hit_alignment=config.hash_block_size if partial else config.scheduler_block_size,
            hash_lookahead=1 if lookahead else 0,
            drop_draft_block=drop,
            drop_groups=draft_groups if drop else frozenset(),
            shared_prefix_checkpoint=config.shared_prefix_checkpoint and partial and bool(draft_groups),
            state_block_size=config.recurrent_block_size,
            checkpoint_alignment=config.prefill_checkpoint_alignment if config.enable_prefix_caching else None,
            checkpoints_every_chunk=config.retention_interval != 0,
        )

    def checkpoint_position(self, num_tokens: int, unit: int) -> int:
        """The highest multiple of `unit` whose state a replay of `num_tokens` tokens can resume from, at
        least 0.

        One token is left to recompute; where a hit drops its last unit, that unit is left instead (vLLM,
        get_mamba_prefill_checkpoint_position).
        """
        if self.drop_draft_block:
            return max(num_tokens // unit * unit - unit, 0)
        return max((num_tokens - max(1, self.hash_lookahead)) // unit * unit, 0)

    def checkpoint_inside(self, start: int, end: int, num_tokens: int | None = None) -> int:
        """Where a prefill of tokens `start..end` can save a state on its way, 0 if it cannot.

        The position is the last one that a replay of `num_tokens` (or `end`) tokens can resume from. The state goes
        to the column before the running one, which must be another than the initial state's (vLLM,
        is_mamba_prefill_checkpoint_valid).
        """
        if self.checkpoint_alignment is None:
            return 0
        position = self.checkpoint_position(end if num_tokens is None else num_tokens, self.hit_alignment)
        size, hashed = self.state_block_size, self.hash_block_size
        fits = (
            start % hashed == 0
            and checkpoint_column(end, size) > (start - 1) // size
            and start + hashed <= position < end
            and (position - start) % self.checkpoint_alignment == 0
        )
        return position if fits else 0


def checkpoint_column(end: int, size: int) -> int:
    """The column of a recurrent group that a state saved inside a prefill up to `end` tokens goes to."""
    return -(-end // size) - 2
