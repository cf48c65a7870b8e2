"""What makes Hypothesis shrink one known failure: a database that holds it, and no clock that ends it early."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hypothesis.database import ExampleDatabase, choices_to_bytes
from hypothesis.internal.conjecture import engine


class KnownFailure(ExampleDatabase):
    """Offers `picks`, as drawn by a `HypothesisChooser`, under every key; remembers nothing else."""

    def __init__(self, picks: Sequence[int]) -> None:
        super().__init__()
        # One choice too many: Hypothesis takes an exact match for something that it has shrunk before.
        self._example = choices_to_bytes([*picks, 0])

    def fetch(self, key: bytes) -> Iterable[bytes]:
        yield self._example

    def save(self, key: bytes, value: bytes) -> None:
        pass

    def delete(self, key: bytes, value: bytes) -> None:
        pass


@contextmanager
def unhurried() -> Iterator[None]:
    """Hypothesis ends a shrinking after five minutes; ours are bounded by count, to be the same on a slow machine."""
    before = engine.MAX_SHRINKING_SECONDS
    engine.MAX_SHRINKING_SECONDS = 10**9
    try:
        yield
    finally:
        engine.MAX_SHRINKING_SECONDS = before
