"""The cost model: integer microseconds per rank and step, so that latencies can be compared between kernel sets.

A handful of round numbers in the range of a dense 27B hybrid on current GPUs. They order events (who arrives before
which schedule) and weigh a step against another; they are not measurements, and only ratios of results mean anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from stalerow.simulator.errors import UsageError


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Microseconds unless the name says otherwise; of the whole model where a rank does its share of layers.

    client: between two requests that the client sends, and from a finished request to the next. schedule, process:
    the engine's two halves of a step. message: engine to worker and back. host: a worker's host per step. launch: a
    small kernel. weights: reading the weights once per step (whole model). token: computing one token (whole model).
    sample: sampling; draft: one draft of one step. link: activations to the next rank; link_tokens: tokens it moves
    in a microsecond. broadcast: sampled tokens to the other ranks. state_kib: recurrent state of one request (whole
    model), what one state copy moves; copy_kib: KiB that a copy moves in a microsecond.
    """

    client: int = 500
    schedule: int = 250
    process: int = 150
    message: int = 60
    host: int = 600
    launch: int = 6
    weights: int = 12_000
    token: int = 60
    sample: int = 150
    draft: int = 400
    link: int = 40
    link_tokens: int = 8
    broadcast: int = 60
    state_kib: int = 150_000
    copy_kib: int = 1_500

    def forward(self, num_tokens: int, pp: int) -> int:
        """A rank's layers over a step's tokens: bound by the weights or by the arithmetic, whichever is longer."""
        return max(self.weights, self.token * num_tokens) // pp

    def copies(self, num_requests: int, pp: int) -> int:
        """The state copies of so many requests on one rank."""
        return self.launch + num_requests * self.state_kib // (self.copy_kib * pp)

    def activations(self, num_tokens: int) -> int:
        """From the end of a rank's forward to their arrival at the next."""
        return self.link + num_tokens // self.link_tokens


def with_changes(changes: Sequence[str]) -> Costs:
    """The default costs with some set anew, each as "name=value". Raises `UsageError`."""
    values: dict[str, int] = {}
    for change in changes:
        name, _, text = change.partition("=")
        if name not in Costs.__struct_fields__:
            raise UsageError(f"cost {change!r}: give NAME=VALUE with one of {', '.join(Costs.__struct_fields__)}")
        least = 1 if name in ("link_tokens", "copy_kib") else 0
        if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < least:
            raise UsageError(f"cost {name}={text[:40]!r}: give an integer of at least {least}, of 12 digits at most")
        values[name] = int(text)
    return Costs(**values)
