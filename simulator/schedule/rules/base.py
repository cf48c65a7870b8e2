"""What a rule is: a part of a schedule that says by which chooser the order of its events is decided.

A rule is plain data (`kind` and its own fields in a schedule's file) and makes the chooser that decides a run.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stalerow.simulator.schedule.choosers import OrderChooser


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Subclass it in a file of this folder with `tag="name"`, which is its `kind` in a schedule's file."""

    def chooser(self, decisions: Callable[[], int]) -> OrderChooser:
        """The chooser of one run. `decisions()` counts those of the same schedule's run in canonical order."""
        raise NotImplementedError

    def objection(self) -> str:
        """What is wrong with the fields and what to give instead, as "field is VALUE: give ..."; "" if nothing."""
        return ""
