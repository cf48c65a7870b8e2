"""What every kind of violation and every mark means: one Markdown page each, for the terminal and for the page.

Kinds have theirs beside their names (`oracle.kinds`); those of marks, and of what a campaign reports besides, lie in
`meanings/`. Each says what it means, what usually causes it, which public bug looked like this, and what to look at
next.
"""

from __future__ import annotations

import difflib
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.kinds import KINDS, PAGES
from stalerow.simulator.oracle.violations import MARKS

if TYPE_CHECKING:
    from rich.console import Console

READING = "reading a finding"
"""The page that explains the screens themselves."""
CAMPAIGN_KINDS = ("crash", "hang", "determinism breach", "internal error")
"""What a campaign can report besides violations."""


def lists() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Everything that has a page, under a title each."""
    return (
        ("how to read the screens", (READING,)),
        ("violations", KINDS),
        ("what a campaign reports besides", CAMPAIGN_KINDS),
        ("marks", MARKS),
    )


def names() -> tuple[str, ...]:
    """The same without titles."""
    return tuple(name for _, part in lists() for name in part)


def markdown(name: str) -> str:
    """The page of a kind or mark, in any case and with any separators. Raises `UsageError` naming the nearest ones."""
    wanted = _slug(name)
    if wanted not in map(_slug, names()):
        near = difflib.get_close_matches(name.lower(), names(), n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "'stalerow explain' lists them all"
        raise UsageError(f"{name!r} is not a kind of violation or a mark: {hint}")
    for kind, page in PAGES.items():
        if _slug(kind) == wanted:
            return f"# {kind}\n{page}"
    return (files("stalerow.simulator.draw") / "meanings" / f"{wanted}.md").read_text(encoding="utf-8")


def as_html(name: str) -> str:
    """The same as HTML, without its heading; "" for what has no page."""
    from markdown_it import MarkdownIt

    if _slug(name) not in map(_slug, names()):
        return ""
    text = re.sub(r"\A# .*\n", "", markdown(name))
    html: str = MarkdownIt("commonmark", {"html": False}).render(text)
    return html


def print_page(name: str, out: Console) -> None:
    """Draw the page in the terminal."""
    from rich.markdown import Markdown

    out.print(Markdown(markdown(name)))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
