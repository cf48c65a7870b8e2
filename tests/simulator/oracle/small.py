"""A small memory layout and steps made by hand, for tests of the oracle's parts alone."""

from __future__ import annotations

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.engine.step import CachedRequest, NewRequest, ScheduledRow, Step
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.schedule.values import Request
from stalerow.simulator.truth.plan import Planner

BLOCK_SIZE, DRAFTS = 4, 2
LAYOUT = Layout(
    groups=(
        GroupSpec("recurrent", BLOCK_SIZE, states=(StateSpec("conv", 4, 2), StateSpec("temporal", 16, 2))),
        GroupSpec("attention", BLOCK_SIZE, kv_bytes=8),
    ),
    layers=1,
    num_blocks=12,
    num_drafts=DRAFTS,
)
CONV, TEMPORAL = LAYOUT.states
REQUESTS = tuple(Request(id=f"r{i}", prompt_len=6, max_tokens=8, stream=i, accepted=(1,)) for i in range(3))
RECURRENT, ATTENTION = (1, 2, 3, 4), (5, 6)
"""Blocks that `admitted` gives the first request, by column."""


def planner() -> Planner:
    return Planner(REQUESTS, BLOCK_SIZE, DRAFTS)


def step(number: int, rows: tuple[ScheduledRow, ...] = (), **given) -> Step:
    made = {"new": (), "cached": (), "finished": (), "preempted": (), "zero": (), "copies": (), "block_lists": {}}
    return Step(number=number, rows=rows, hashed={}, num_free_blocks=0, **{**made, **given})


def new(request: str, blocks: tuple[tuple[int, ...], ...], hit: int = 0) -> NewRequest:
    tokens = tuple(planner().prompt(request))
    return NewRequest(request, len(tokens), tokens, hit, blocks, False, 0, 8)


def more(request: str, blocks: tuple[tuple[int, ...], ...]) -> CachedRequest:
    return CachedRequest(request, 0, blocks)


def admitted(ledger: Ledger | None = None) -> Ledger:
    """A ledger in which r0 has `RECURRENT` and `ATTENTION`."""
    ledger = ledger or Ledger(LAYOUT)
    ledger.take_admissions(step(1, new=(new("r0", (RECURRENT, ATTENTION)),)))
    return ledger


PREFILL = step(1, (ScheduledRow("r0", 6, 0, 0, True),), new=(new("r0", (RECURRENT, ATTENTION)),))
VERIFY = step(2, (ScheduledRow("r0", 3, 2, 6, True),))
"""One draft of two is accepted: tokens 7 and 8, so that the second block ends within the step."""
