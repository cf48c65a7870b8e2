"""Swarm generation (Groce et al. 2012): each campaign leaves out some features, so that the rest crowd out less.

A feature that is always on can hide what only shows without it: aborts cut requests short, shared prefixes skip the
prefill. The number of a swarm says which features its seeds do without; about half of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stalerow.simulator.schedule.choosers import Chooser
from stalerow.simulator.schedule.choosers.features import FeatureChooser

FEATURES: Mapping[str, Sequence[str]] = {
    "aborts": ("abort",),
    "arrivals apart": ("arrival gap",),
    "shared prefixes": ("shared prefix blocks",),
    "long prompts": ("long prompt",),
    "order of events": ("order kind", "holds"),
    "graphs": ("graph sizes",),
    "several groups": ("recurrent groups",),
    "block sizes that differ": ("attention block ratio",),
    "odd sizes": ("kv bytes", "page padding", "base offset", "conv element", "temporal element"),
    "tight pools": ("pool slack",),
    "tight limits": ("max_num_seqs", "token budget"),
}
"""Labels of the generator by feature; a request's are the end of the label. Their first option is to do without."""


def left_out(swarm: int) -> tuple[str, ...]:
    """The features that a swarm does without, by name."""
    chooser = FeatureChooser(f"swarm {swarm}")
    return tuple(name for name in FEATURES if chooser.pick(2, name))


class SwarmChooser:
    """Takes the first option of what the swarm leaves out, and asks `chooser` about the rest."""

    def __init__(self, chooser: Chooser, swarm: int) -> None:
        self._chooser = chooser
        self._labels = tuple(label for name in left_out(swarm) for label in FEATURES[name])

    def pick(self, n: int, label: str) -> int:
        return 0 if label.endswith(self._labels) else self._chooser.pick(n, label)
