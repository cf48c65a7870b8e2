"""What a rank must hold for a request, in the request's own numbers: before a forward uses it, and after an output.

The judge compares these with the rank's arrays; a recorder writes them down for a pack to compare on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import Taken
from stalerow.simulator.truth.plan import Planner, PlanRow


class Held(NamedTuple):
    """What a rank's per-slot arrays hold, on the host; shapes and meanings as in `kernels.base.memory.SlotState`."""

    state_idx: np.ndarray
    num_accepted: np.ndarray
    num_computed: np.ndarray
    total_len: np.ndarray
    last_token: np.ndarray
    token_ids: np.ndarray
    src_col: np.ndarray
    src_off: np.ndarray


def held(rank: Rank) -> Held:
    return Held(*(rank.backend.to_host(getattr(rank.slots, name)) for name in Held._fields))


class Counts(NamedTuple):
    """Tokens, but for `last_token`, which is an id. None where the request does not say."""

    num_computed: int
    total_len: int | None
    last_token: int | None


class Outcome(NamedTuple):
    """A row of an output. counts: None where nothing is expected; `taken_by`: who holds the slot that it has left."""

    row: PlanRow
    slot: int
    counts: Counts | None
    taken_by: str | None


def before_forward(planner: Planner, row: PlanRow) -> Counts:
    """What the forward of the row finds; the running column and accepted count are `row.column` and
    `row.accepted_in_forward`."""
    if row.previous is None or not row.previous.num_sampled:
        return Counts(row.start, None, None)
    known = row.start + row.num_tokens - row.num_drafts
    return Counts(row.start, known, planner.streams[row.request].slice(known - 1, known)[0])


def after_output(planner: Planner, ledger: Ledger, output: Taken) -> Iterator[Outcome]:
    """Every row of a taken output, in batch order."""
    rows, kept = planner.plans[output.of].rows, {*output.kept}
    for request, slot in zip(output.requests, output.slots.tolist()):
        row, counts, taken_by = rows[request], None, None
        if request in kept and not ledger.alive(request, row.incarnation):
            taken_by = output.held.get(slot)
        elif request in kept and row.num_sampled:
            known = row.start + row.num_tokens - row.num_drafts + row.num_sampled
            counts = Counts(row.end, known, planner.streams[request].slice(known - 1, known)[0])
        yield Outcome(row, slot, counts, taken_by)
