"""The scheduler's own block list of one request in one group, with what its manager remembers about it.

Made and changed by the KV managers; `KVCache` keeps one per request and group.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """Blocks of one request in one group, null = 0.

    `num_cached` counts the leading blocks that need no (further) hash, None before the first; `partial_hit`
    is the column and block of a tail shared with the prefix cache, to be copied before the next write. The
    rest is for recurrent groups: whether blocks were allocated yet, the column of the state two allocations
    ago, how many leading columns are retired for good, and the state that the last allocation's chunk saves on its way
    (tokens, column).
    """

    blocks: list[int] = field(default_factory=list)
    num_cached: int | None = None
    partial_hit: tuple[int, int] | None = None
    allocated: bool = False
    previous_state_column: int | None = None
    num_retired: int = 0
    checkpoint: tuple[int, int] | None = None
