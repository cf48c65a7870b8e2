"""Numbers with what they count, for sentences that are right whatever the number is."""

from __future__ import annotations


def counted(number: int, one: str, more: str = "") -> str:
    """As in "1 block", "2 blocks"; `more` is the plural where it is not `one` with an s."""
    return f"{number} {one if number == 1 else more or one + 's'}"
