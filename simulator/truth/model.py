"""What ranks ask of the model: the prefix hashes that a forward goes by, and what its last rank samples.

`plan.Planner` answers from the schedule, whatever the ranks do; `serve.model.ClosedLoop` from what the ranks' forwards
have found. A rank cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from stalerow.kernels.base.device import HostArray
from stalerow.simulator.engine.step import ScheduledRow


class Sampled(NamedTuple):
    """A step's outcome by batch row: token ids, how many, and how many drafts were rejected."""

    tokens: Sequence[Sequence[int]]
    num_sampled: Sequence[int]
    num_rejected: Sequence[int]


class Model(Protocol):
    """`step` is a step's number and `rows` its rows in batch order."""

    def hash_table(self, step: int, rows: tuple[ScheduledRow, ...], width: int) -> HostArray:
        """Hashes of each row's prefixes of 0..n tokens: int64 [rows, L], zero past the end. L is the model's choice
        and fits `width` tokens or the longest row. Not to be changed."""
        ...

    def known_tokens(self, step: int, row: ScheduledRow) -> Sequence[int]:
        """The request's tokens when the step runs, drafts not counted."""
        ...

    def sample(self, step: int, rows: tuple[ScheduledRow, ...], leaving: Callable[[], HostArray]) -> Sampled:
        """What the last rank samples. `leaving()`: the activations that leave it, int64 [rows], 0 in healthy rows."""
        ...
