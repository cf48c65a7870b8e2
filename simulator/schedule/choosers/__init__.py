"""Choosers: what decides every open question, in generation and in the run; one chooser a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol


class Chooser(Protocol):
    """Picks one of `n` options; 0 is the simplest and, in a run, the canonical one."""

    def pick(self, n: int, label: str) -> int:
        """Return an index in range(n). `label` says what is decided, for reports and replay."""
        ...


class Place(NamedTuple):
    """Something that an event uses. Of a rank's staging pools, `pool` and `buffer` say which buffer; -1 is no rank."""

    of: Literal["engine", "side", "host", "device", "staging"]
    rank: int = -1
    pool: str = ""
    buffer: int = -1


class Event(NamedTuple):
    """What an enabled actor would do next: the places that it reads, and those that it changes."""

    actor: str
    reads: frozenset[Place]
    writes: frozenset[Place]

    def conflicts(self, other: Event) -> bool:
        """Whether the two do not commute: one changes what the other uses."""
        return bool(self.writes & other.writes or self.writes & other.reads or self.reads & other.writes)


Pending = Callable[[str], Event]
"""An enabled actor's next event."""


class OrderChooser(Protocol):
    """Picks which of the enabled actors acts next."""

    def next(self, enabled: Sequence[str], pending: Pending) -> int:
        """Return an index into `enabled`, which lists actors in canonical order of precedence."""
        ...
