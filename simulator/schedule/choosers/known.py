"""A Hypothesis example database that holds one known failure, so that shrinking starts from it and not from luck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis.database import ExampleDatabase, choices_to_bytes


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
