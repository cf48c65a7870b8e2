"""Prefix identities: one small integer per distinct token prefix, the simulator's stand-in for chained block
hashes.

Fed by the scheduler when a request arrives or gets tokens; used as keys by the block pool. Identities are
handed out in the order in which prefixes first appear, so they cannot collide and do not depend on any hash
seed.
"""

from __future__ import annotations

from stalerow.simulator.engine.request import Request


class PrefixHasher:
    """Extends a request's `block_hashes` at `hash_block_size` granularity.

    A prefix is identified by its parent prefix and the block's tokens, the first block's by the request's salt and its
    tokens; with `lookahead` > 0 also by that many tokens after the block, and only once they exist (vLLM 0.33,
    get_request_block_hasher).
    """

    def __init__(self, hash_block_size: int, lookahead: int = 0) -> None:
        self._size = hash_block_size
        self._lookahead = lookahead
        self._identities: dict[tuple[int | str, tuple[int, ...]], int] = {}

    def extend(self, request: Request) -> None:
        """Append identities for every block that is complete now."""
        hashes, tokens = request.block_hashes, request.token_ids
        start = len(hashes) * self._size
        last = len(tokens) - self._lookahead
        while start + self._size <= last:
            window = tuple(tokens[start : start + self._size + self._lookahead])
            key = (hashes[-1] if hashes else request.options.cache_salt, window)
            identity = self._identities.setdefault(key, len(self._identities))
            hashes.append(identity)
            start += self._size
