"""Two seeds: one decides what memory looks like, the other what happens in it.

Schedules of one family have ranks, drafts and a memory layout in common, so that many can run in one pool.
"""

from __future__ import annotations

from stalerow.simulator.schedule.choosers import Chooser
from stalerow.simulator.schedule.choosers.features import FeatureChooser

SHAPE = frozenset(
    {
        "pp",
        "runner",
        "drafts",
        "block size",
        "conv dim",
        "conv element",
        "temporal dim",
        "temporal element",
        "states",
        "recurrent groups",
        "kv bytes",
        "layers",
        "conv kernel",
        "conv layout",
        "page padding",
        "base offset",
        "attention block ratio",
        "states reversed",
    }
)
"""What the family decides, by the generator's labels."""


class FamilyChooser:
    """Asks the family's chooser about the shape and the seed's own about everything else."""

    def __init__(self, seed: int, family: int) -> None:
        self._own, self._family = FeatureChooser(f"seed {seed}"), FeatureChooser(f"family {family}")

    def pick(self, n: int, label: str) -> int:
        return (self._family if label in SHAPE else self._own).pick(n, label)


def seeded(seed: int, family: int | None) -> Chooser:
    """The chooser of a seed, of a family if there is one."""
    return FeatureChooser(f"seed {seed}") if family is None else FamilyChooser(seed, family)
