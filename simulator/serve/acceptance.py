"""How many drafts a healthy model accepts: a draw that belongs to the request and the position, not to the schedule.

Given as the shares of steps in which the first, second, ... draft is accepted (what vLLM logs as "Per-position
acceptance rate"), or fitted to a mean acceptance length. `model` asks once per verification step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stalerow.simulator.errors import UsageError
from stalerow.simulator.truth.streams import mix64

SCALE = 1 << 32
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Acceptance:
    """`limits[i]`, out of 2**32: in how many of the draws draft i and all before it are accepted; falling."""

    limits: tuple[int, ...]

    def draw(self, seed: int, request: int, position: int, num_drafts: int) -> int:
        """Accepted drafts, 0..num_drafts, of the step that verifies the draft at token `position` of a request."""
        value = mix64(mix64(mix64(seed) + request) + position) >> 32
        return min(sum(value < limit for limit in self.limits), num_drafts)

    @property
    def mean_length(self) -> float:
        """Tokens per step that the model expects: one plus the accepted drafts."""
        return 1 + sum(self.limits) / SCALE


def from_rates(rates: Sequence[float], num_drafts: int) -> Acceptance:
    """Shares of the steps in which draft 1, 2, ... is accepted. Raises `UsageError` unless they fit the drafts."""
    if len(rates) != num_drafts:
        raise UsageError(f"{len(rates)} acceptance rates for {num_drafts} drafts: give one rate per draft")
    falling = all(a >= b for a, b in pairwise(rates))
    if not falling or any(not 0 <= rate <= 1 for rate in rates):
        text = " ".join(f"{rate:g}" for rate in rates)
        raise UsageError(f"acceptance rates {text}: give shares from 0 to 1 that do not rise with the position")
    return Acceptance(tuple(round(rate * SCALE) for rate in rates))


def from_mean(length: float, num_drafts: int) -> Acceptance:
    """The model in which every draft is accepted with one probability if those before it are, with this mean length.

    `length` is in tokens per step, 1 to `num_drafts + 1`. Raises `UsageError` outside of that.
    """
    if not 1 <= length <= num_drafts + 1:
        raise UsageError(f"mean acceptance length {length:g}: {num_drafts} drafts allow 1 to {num_drafts + 1}")
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if 1 + sum(_powers(middle, num_drafts)) < length:
            low = middle
        else:
            high = middle
    return from_rates(_powers(high, num_drafts), num_drafts)


def _powers(base: float, count: int) -> list[float]:
    """base, base**2, ... by multiplication alone, so that every machine gets the same bits."""
    powers, power = [], 1.0
    for _ in range(count):
        power *= base
        powers.append(power)
    return powers
