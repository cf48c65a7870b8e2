"""How bytes carry identity: every state row in the pool says whose it is, and a single wrong byte shows.

The stand-in forward writes a row as the pattern of a 64-bit key, `(hash + damage) ^ salt`. `hash` names the
request's token prefix, `salt` the layer and state, and `damage` (0 in health) is what a wrong read before it
left behind. The oracle and `forward` read the same patterns back. All arithmetic wraps at 64 bits.

Bytes 0..7 of a row are the key, little-endian; byte `j >= 8` is byte `j % 8` of `mix64(key + j // 8 *
GOLDEN)`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stalerow.kernels.base.device import HostArray

GOLDEN = 0x9E3779B97F4A7C15
"""Odd constant near 2**64 / phi: spreads a row's words, and carries damage into what a step writes."""
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
"""Multipliers of the splitmix64 finaliser."""

JUNK = 0x2545F4914F6CDD1D
"""Tells the hashes of rejected drafts from those of true prefixes."""

_MASK = (1 << 64) - 1


def mix64(x: HostArray) -> HostArray:
    """The splitmix64 finaliser of each element: a bijection of 64-bit values. uint64 in, uint64 out."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(MIX_1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(MIX_2)
    return x ^ (x >> np.uint64(31))


def mix64_int(x: int) -> int:
    """`mix64` of one Python integer; the result is signed, as it appears in an int64 array."""
    x &= _MASK
    x = (x ^ (x >> 30)) * MIX_1 & _MASK
    x = (x ^ (x >> 27)) * MIX_2 & _MASK
    return signed(x ^ (x >> 31))


def signed(x: int) -> int:
    """`x` modulo 2**64 as the signed integer with the same bits."""
    x &= _MASK
    return x - (1 << 64) if x >> 63 else x


@lru_cache(maxsize=4096)
def salt(group: int, layer: int, state: int) -> int:
    """int64 that tells the states of one token prefix apart; `state` is 0 for an attention layer."""
    return mix64_int((group + 1 << 40) + (layer + 1 << 20) + state + 1)


def pattern(keys: HostArray, num_bytes: int) -> HostArray:
    """The bytes of each key: int64 [...] to uint8 [..., num_bytes]. `num_bytes` is at least 8."""
    keys = np.asarray(keys, dtype="<i8")
    if num_bytes == 8:
        return keys[..., None].view(np.uint8)
    words = _words(keys, -(-num_bytes // 8))
    return words.view(np.uint8)[..., :num_bytes]


def decode(row: HostArray, row_salt: int) -> tuple[int, int]:
    """(hash, mismatches) of one row: what its key says, and how many later bytes disagree with that key.

    `row` is uint8 [num_bytes]; `hash` includes damage, if any, and is signed.
    """
    key = np.ascontiguousarray(row[:8]).view("<i8")
    return int(key[0]) ^ row_salt, int(np.count_nonzero(pattern(key, len(row))[0] != row))


def torn(rows: HostArray, keys: HostArray) -> HostArray:
    """int64 [...]: 0 where the bytes past the key agree with it, else a nonzero digest of the differences.

    The digest is `GOLDEN * sum over differing bytes j >= 8 of (j + 1) * (1 + (byte ^ expected))`, wrapping.
    `rows` is uint8 [..., num_bytes], `keys` int64 [...].
    """
    num_bytes = rows.shape[-1]
    if num_bytes == 8:
        return np.zeros(keys.shape, dtype=np.int64)
    wrong = rows ^ pattern(keys, num_bytes)
    wrong[..., :8] = 0
    if not wrong.any():
        return np.zeros(keys.shape, dtype=np.int64)
    terms = np.where(wrong, wrong.astype(np.int64) + 1, 0) * np.arange(1, num_bytes + 1)
    digest: HostArray = (terms * signed(GOLDEN)).sum(axis=-1)
    return digest


def _words(keys: HostArray, count: int) -> HostArray:
    """Little-endian 64-bit words of the patterns: int64 [...] to uint64 [..., count]."""
    words = mix64(keys.view(np.uint64)[..., None] + _steps(count))
    words[..., 0] = keys.view(np.uint64)
    return words


@lru_cache(maxsize=256)
def _steps(count: int) -> HostArray:
    return np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN)
