"""Choosers: what decides every open question, in generation and in the run; one chooser a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Chooser(Protocol):
    """Picks one of `n` options; 0 is the simplest and, in a run, the canonical one."""

    def pick(self, n: int, label: str) -> int:
        """Return an index in range(n). `label` says what is decided, for reports and replay."""
        ...


class OrderChooser(Protocol):
    """Picks which of the enabled actors acts next."""

    def next(self, enabled: Sequence[str]) -> int:
        """Return an index into `enabled`, which lists actors in canonical order of precedence."""
        ...
