"""The chooser behind seeds: every feature draws from a stream of its own, keyed by (seed, label).

A feature that a later release adds has a label of its own, so it leaves every other choice of every seed as it was.
Asking twice under one label goes on in that label's stream.
"""

from __future__ import annotations

from hashlib import blake2b

from stalerow.simulator.schedule.choosers.seeded import SeededChooser


class FeatureChooser:
    """`key` names the seed: "seed 7" and "family 7" share nothing."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._streams: dict[str, SeededChooser] = {}

    def pick(self, n: int, label: str) -> int:
        stream = self._streams.get(label)
        if stream is None:
            digest = blake2b(f"{self._key}/{label}".encode(), digest_size=8).digest()
            stream = self._streams[label] = SeededChooser(int.from_bytes(digest, "little"))
        return stream.pick(n)
