"""What ranks send each other: activations down the pipeline, sampled tokens from the last rank to the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec


class SampledOutput(msgspec.Struct, eq=False):
    """One step's sampler output, in the last rank's batch order. Arrays live on the ranks' backend.

    tokens: int64 [rows, K+1]; num_sampled, num_rejected: int32 [rows].
    """

    requests: tuple[str, ...]
    tokens: Any
    num_sampled: Any
    num_rejected: Any


@dataclass(slots=True)
class Wires:
    """activations[rank, step]: int64 [rows] that left `rank`; sampled[step]; received: steps broadcast by now."""

    activations: dict[tuple[int, int], Any] = field(default_factory=dict)
    sampled: dict[int, SampledOutput] = field(default_factory=dict)
    received: set[int] = field(default_factory=set)
    outputs: set[int] = field(default_factory=set)
