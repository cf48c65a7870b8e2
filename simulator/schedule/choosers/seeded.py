"""The seeded chooser: an integer seed decides, through our own generator, so that seeds outlive library versions."""

from __future__ import annotations

MASK = (1 << 64) - 1


class SeededChooser:
    """SplitMix64 (Steele, Lea and Flood, 2014) over a 64-bit state; rejection keeps picks unbiased."""

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK

    def pick(self, n: int, label: str = "") -> int:
        if n == 1:
            return 0
        limit = (1 << 64) - (1 << 64) % n
        while True:
            self._state = (self._state + 0x9E3779B97F4A7C15) & MASK
            z = self._state
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            z ^= z >> 31
            if z < limit:
                return z % n
