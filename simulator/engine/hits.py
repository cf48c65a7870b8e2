"""The prefix-cache search: the longest prefix of a request that every group can still serve.

Asked by `KVCache` at admission; reads the pool's index only. Public source: vLLM's HybridKVCacheCoordinator
and the managers' find_longest_cache_hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec

from stalerow.simulator.engine.block_pool import NULL_BLOCK, BlockPool
from stalerow.simulator.engine.config import EngineConfig, GroupKind
from stalerow.simulator.engine.policies import HitPolicy
from stalerow.simulator.engine.rules import CacheRules
from stalerow.simulator.engine.window import blocks_for_hit


class Hit(msgspec.Struct, frozen=True):
    """`num_tokens` tokens served by `blocks` (one list per group, null for columns that nobody needs).

    `junction` is the end of a longer prefix that some group could serve but others could not, 0 if there is
    none.
    """

    blocks: tuple[tuple[int, ...], ...]
    num_tokens: int
    junction: int


class _Family(msgspec.Struct, frozen=True):
    """Groups that are looked up together."""

    groups: tuple[int, ...]
    kind: Literal["attention", "window", "recurrent"]
    block_size: int
    drops: bool
    window: int = 0

    @property
    def attention(self) -> bool:
        """Whether what it can serve of a prefix it can serve of every shorter one."""
        return self.kind == "attention"


class HitSearch:
    """Finds hits for one engine; `families` are full attention first, then the others."""

    def __init__(self, config: EngineConfig, rules: CacheRules, pool: BlockPool, policy: HitPolicy) -> None:
        self._policy = policy
        self._rules = rules
        self._pool = pool
        self._num_groups = len(config.groups)
        self._empty = Hit(((),) * self._num_groups, 0, 0)
        self.families = _families(config, rules)

    def drops_draft_block(self, group: int) -> bool:
        """Whether lookups of the group give up their last unit."""
        return any(family.drops for family in self.families if group in family.groups)

    def longest(self, prefixes: Sequence[int], max_tokens: int) -> Hit:
        """The longest hit of at most `max_tokens` tokens for a request with these prefix identities."""
        if not prefixes or max_tokens <= 0:
            return self._empty
        if self._num_groups == 1:
            blocks, length = self._find(self.families[0], prefixes, max_tokens, self.families[0].drops)
            return Hit(tuple(map(tuple, blocks)), length, 0)
        return self._agree(prefixes, max_tokens)

    def _agree(self, prefixes: Sequence[int], max_tokens: int) -> Hit:
        """Shorten the candidate until every family accepts it; each drops its draft unit once."""
        found: dict[int, tuple[list[list[int]], int]] = {}
        dropped: set[int] = set()
        length, longest = max_tokens, 0
        once = len(self.families) == 2 and self.families[0].attention
        while True:
            candidate = length
            for index, family in enumerate(self.families):
                if family.attention and index in found:
                    # What attention found covers every shorter prefix too.
                    candidate = min(candidate, found[index][1])
                    continue
                drop = family.drops and index not in dropped
                limit = self._search_limit(family, prefixes, candidate, drop)
                blocks, hit = self._find(family, prefixes, limit, drop)
                if drop:
                    dropped.add(index)
                elif hit < candidate:
                    dropped.clear()
                candidate = self._policy.agreed(candidate, hit, family.kind == "recurrent")
                found[index] = (blocks, hit)
                longest = max(longest, hit)
            if candidate >= length or once:
                length = min(length, candidate)
                break
            length = candidate
        return Hit(self._gather(found, length), length, longest if longest > length else 0)

    def _search_limit(self, family: _Family, prefixes: Sequence[int], candidate: int, drop: bool) -> int:
        """A family that drops a unit may match one unit past the candidate; recurrent groups never drop."""
        if not drop or family.kind == "recurrent":
            return candidate
        fine = family.attention and self._rules.partial_hits and family.block_size > self._rules.hash_block_size
        unit = self._rules.hash_block_size if fine else family.block_size
        return min(candidate + unit, len(prefixes) * self._rules.hash_block_size)

    def _gather(self, found: dict[int, tuple[list[list[int]], int]], length: int) -> tuple[tuple[int, ...], ...]:
        by_group: list[tuple[int, ...]] = [()] * self._num_groups
        for index, family in enumerate(self.families):
            for group, blocks in zip(family.groups, found[index][0]):
                kept = blocks[: -(-length // family.block_size)] if family.attention else blocks
                by_group[group] = tuple(kept)
        return tuple(by_group)

    def _find(self, family: _Family, prefixes: Sequence[int], limit: int, drop: bool) -> tuple[list[list[int]], int]:
        match family.kind:
            case "attention":
                return self._find_attention(family, prefixes, limit, drop)
            case "window":
                return self._find_window(family, prefixes, limit, drop)
            case "recurrent":
                return self._find_recurrent(family, prefixes, limit)
            case _:
                assert_never(family.kind)

    def _find_window(
        self, family: _Family, prefixes: Sequence[int], limit: int, drop: bool
    ) -> tuple[list[list[int]], int]:
        """The rightmost run of blocks that fills a window and ends where hits may; at the start it may be shorter."""
        size, alignment = family.block_size, self._rules.hit_alignment
        per_block, count = size // self._rules.hash_block_size, limit // size
        need, run, keep = blocks_for_hit(family.window, size, drop), 0, None
        blocks = [[NULL_BLOCK] * count for _ in family.groups]
        for column in range(count - 1, -1, -1):
            held = self._pool.lookup(prefixes[(column + 1) * per_block - 1], family.groups)
            if held is None:
                run = 0
                continue
            if run == 0 and (column + (not drop)) * size % alignment:
                continue
            for column_blocks, block in zip(blocks, held):
                column_blocks[column] = block
            run += 1
            if run >= need:
                keep = column + run
                break
        if keep is None:
            keep = run - run * size % alignment // size
        if drop and keep:
            keep -= 1
            keep -= keep * size % alignment // size
        return [column_blocks[:keep] for column_blocks in blocks], keep * size

    def _find_attention(
        self, family: _Family, prefixes: Sequence[int], limit: int, drop: bool
    ) -> tuple[list[list[int]], int]:
        """Full blocks from the left, then the longest partial tail; then the drop."""
        unit, size = self._rules.hash_block_size, family.block_size
        per_block = size // unit
        blocks: list[list[int]] = [[] for _ in family.groups]
        count = 0
        for column in range(min(limit // size, len(prefixes) // per_block)):
            held = self._pool.lookup(prefixes[(column + 1) * per_block - 1], family.groups)
            if held is None:
                break
            for column_blocks, block in zip(blocks, held):
                column_blocks.append(block)
            count += 1
        length = count * size
        alignment = self._rules.hit_alignment
        if alignment < size:
            first = count * per_block
            last = min(first + per_block - 1, limit // unit, len(prefixes))
            for index in range(last - 1, first - 1, -1):
                held = self._pool.lookup(prefixes[index], family.groups)
                if held is not None:
                    for column_blocks, block in zip(blocks, held):
                        column_blocks.append(block)
                    length = (index + 1) * unit
                    break
        if drop and length:
            length -= min(alignment, size)
        length -= length % alignment
        keep = -(-length // size)
        return [column_blocks[:keep] for column_blocks in blocks], length

    def _find_recurrent(self, family: _Family, prefixes: Sequence[int], limit: int) -> tuple[list[list[int]], int]:
        """One state is enough: the rightmost boundary whose state is cached, at hash or block granularity."""
        unit, size, alignment = self._rules.hash_block_size, family.block_size, self._rules.hit_alignment
        step = unit if alignment < size else size
        for length in range(min(limit, len(prefixes) * unit) // step * step, 0, -step):
            if length % alignment:
                continue
            held = self._pool.lookup(prefixes[length // unit - 1], family.groups)
            if held is not None:
                skipped = [NULL_BLOCK] * ((length - 1) // size)
                return [[*skipped, block] for block in held], length
        return [[] for _ in family.groups], 0


def _families(config: EngineConfig, rules: CacheRules) -> tuple[_Family, ...]:
    members: dict[tuple[GroupKind, int, int, int], list[int]] = {}
    for index, group in enumerate(config.groups):
        members.setdefault((group.kind, group.block_size, group.spec, group.window), []).append(index)
    families = [
        _Family(tuple(groups), "window" if window else kind, size, any(g in rules.drop_groups for g in groups), window)
        for (kind, size, _, window), groups in members.items()
    ]
    return tuple(sorted(families, key=lambda family: not family.attention))
