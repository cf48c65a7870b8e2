"""Whether a drawing may use more than ASCII.

A drawing is made as plain text, maybe in a worker process; so this asks the environment and not a console.
"""

from __future__ import annotations

import io
import os
import sys

PLAIN_LOCALES = ("C", "POSIX")


def ascii_only() -> bool:
    """Whether lines must be drawn in ASCII: the locale is plain, or the output's encoding has no lines."""
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    if next(filter(None, named), "") in PLAIN_LOCALES:
        return True
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return not encoding.lower().replace("-", "").startswith("utf")


class Sheet(io.StringIO):
    """Keeps what rich prints, and tells it which characters there are."""

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self._encoding = "ascii" if plain else "utf-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding
