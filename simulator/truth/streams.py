"""Token streams: what each request's tokens are, and the hash that names every prefix of them.

A stream is a function of the request alone: prompt tokens come from numbered streams, each output token from the prefix
before it. So equal prefixes have equal continuations, whoever computes them and whenever.
"""

from __future__ import annotations

import functools

from stalerow.kernels.base.patterns import JUNK
from stalerow.simulator.schedule.values import Request

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST_TOKEN = 10
VOCABULARY = 980
EMPTY_PREFIX = 0x5354414C45524F57


def mix64(value: int) -> int:
    """SplitMix64's finaliser over a 64-bit integer."""
    value &= MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def extend(prefix_hash: int, token: int) -> int:
    """Hash of a prefix with one more token."""
    return mix64(prefix_hash * 3 + _mixed_token(token))


@functools.lru_cache(maxsize=2 * VOCABULARY)
def _mixed_token(token: int) -> int:
    return mix64(token * GOLDEN)


def stream_token(stream: int, index: int) -> int:
    """Token `index` of the numbered prompt stream."""
    return FIRST_TOKEN + mix64(_mixed_stream(stream) + index) % VOCABULARY


@functools.lru_cache(maxsize=64)
def _mixed_stream(stream: int) -> int:
    return mix64(stream)


def junk_hash(prefix_hash: int, step: int, draft: int) -> int:
    """Hash of a prefix that ends in a draft that will be rejected: unlike any true prefix."""
    return mix64(prefix_hash ^ JUNK ^ mix64(step * 64 + draft))


def _empty(salt: str) -> int:
    """Hash of no tokens under a cache salt: prefixes under different salts have different states."""
    start = EMPTY_PREFIX
    for byte in salt.encode():
        start = mix64(start + byte + 1)
    return start


class TokenStream:
    """The tokens of one request and the hashes of its prefixes, extended as far as anybody asks.

    Its outputs depend on the hash before them, so on its salt too, as an adapter's do.
    """

    def __init__(self, request: Request) -> None:
        share, shared = request.share if request.share else (request.stream, 0)
        self.tokens: list[int] = []
        self.hashes: list[int] = [_empty(request.cache_salt)]
        for i in range(request.prompt_len):
            self._append(stream_token(share if i < shared else request.stream, i))

    def _append(self, token: int) -> None:
        self.tokens.append(token)
        self.hashes.append(mix64(self.hashes[-1] * 3 + _mixed_token(token)))

    def hash_at(self, length: int) -> int:
        """Hash of the first `length` tokens."""
        while len(self.tokens) < length:
            self._append(FIRST_TOKEN + mix64(self.hashes[-1]) % VOCABULARY)
        return self.hashes[length]

    def slice(self, start: int, stop: int) -> list[int]:
        """Tokens at positions start..stop-1."""
        self.hash_at(stop)
        return self.tokens[start:stop]
