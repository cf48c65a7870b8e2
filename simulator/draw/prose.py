"""Sentences on a terminal: broken between words, what continues a line under its beginning; whole lines elsewhere."""

from __future__ import annotations

import textwrap

from rich.console import Console

CONTINUED = 2
"""Columns by which a broken line goes on further in than it began."""


def say(out: Console, text: str, hanging: int = CONTINUED) -> None:
    """Print what is to be read. Commands and paths, which are copied, are printed whole: `soft_wrap=True`."""
    for line in text.split("\n"):
        for part in wrapped(line, out.width, hanging) if out.is_terminal else [line]:
            out.print(part, markup=False, highlight=False, soft_wrap=True)


def wrapped(line: str, width: int, hanging: int = CONTINUED) -> list[str]:
    """A line in parts of at most `width` columns, all but the first `hanging` columns further in; long words whole."""
    indent = len(line) - len(line.lstrip())
    inner = indent + (hanging if not indent and width >= 6 * hanging else CONTINUED)
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * min(inner, width // 2),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    ) or [""]
