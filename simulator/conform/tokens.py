"""Token streams of recorded runs: prompts and fabricated outputs, value for value.

Used when a recorded workload is replayed. Outputs are a function of the last eight tokens and the length, so
equal prefixes continue equally; the function is CPython's 64-bit hash of a tuple of ints, written out here so
that every Python computes the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

VOCABULARY = 1000
_MASK = (1 << 64) - 1
_PRIME_1, _PRIME_2, _PRIME_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261


def stream_token(seed: int | str, index: int) -> int:
    """Token `index` of a prompt stream."""
    return 10 + random.Random(f"{seed}:{index}").randrange(VOCABULARY - 20)


def next_token(tokens: Sequence[int]) -> int:
    """The output that follows `tokens`."""
    window = _tuple_hash(list(tokens[-8:]))
    value = _tuple_hash([window, len(tokens)])
    if value >= 1 << 63:
        value -= 1 << 64
    return 10 + value % (VOCABULARY - 20)


def _tuple_hash(lanes: Sequence[int]) -> int:
    """CPython's tuple hash (an xxHash round per lane) of items with these hashes, unsigned, 64 bits."""
    accumulator = _PRIME_5
    for lane in lanes:
        accumulator = (accumulator + lane * _PRIME_2) & _MASK
        accumulator = ((accumulator << 31) | (accumulator >> 33)) & _MASK
        accumulator = (accumulator * _PRIME_1) & _MASK
    accumulator = (accumulator + (len(lanes) ^ (_PRIME_5 ^ 3527539))) & _MASK
    return 1546275796 if accumulator == _MASK else accumulator
