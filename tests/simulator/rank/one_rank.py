"""One rank by itself: a small layout, steps made by hand, and a ledger where the oracle would stand."""

from __future__ import annotations

import msgspec
from small import ATTENTION, DRAFTS, LAYOUT, RECURRENT, REQUESTS, more, new, planner, step

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.engine.step import CachedRequest, ScheduledRow, Step
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.rank.wires import Wires
from stalerow.simulator.schedule.values import Limits, Pipeline, Schedule

REFERENCE = kernel_set("reference:req-idx")
BLOCKS = (RECURRENT, ATTENTION)
OTHERS = ((7, 8), (9,))
"""Blocks of the first request and of the second."""


def schedule(pp: int = 2, profile: str = "0.32", **limits) -> Schedule:
    return Schedule(
        pipeline=Pipeline(pp=pp, drafts=DRAFTS, profile=profile),
        layout=LAYOUT,
        limits=Limits(max_model_len=32, **limits),
        requests=REQUESTS,
    )


class Owners:
    """Says which blocks change hands, as the oracle does."""

    def __init__(self) -> None:
        self.ledger = Ledger(LAYOUT)

    def poison(self, step: Step) -> list[int]:
        return self.ledger.take_admissions(step).recurrent


def rank(kind: type[Rank] = RankV2, index: int = 0, policy: type[RankPolicy] = RankPolicy, **given) -> Rank:
    made = schedule(**given)
    built = kind(index, made, REFERENCE, Wires(), planner(), policy(made))
    built.harness = Owners()
    return built


def hand(to: Rank, step: Step) -> list[str]:
    """Give a rank's host a step; returns the kinds of operation that it has enqueued for it."""
    known = len(to.queue)
    to.model.plan(step)  # type: ignore[attr-defined]
    to.inbox.append(step)
    to.host_step()
    return [operation.kind for operation in to.queue.pending()[known:]]


def drain(of: Rank) -> None:
    """Run what the device can run."""
    while of.queue.runnable():
        of.execute()


def row(request: str, tokens: int, drafts: int = 0, computed: int = 0, samples: bool = True) -> ScheduledRow:
    return ScheduledRow(request, tokens, drafts, computed, samples)


def both(number: int = 1) -> Step:
    """A step that admits both requests and prefills them whole."""
    admitted = new("r0", BLOCKS), new("r1", OTHERS)
    return step(number, (row("r0", 6), row("r1", 6)), new=admitted, zero=(*ATTENTION, *OTHERS[1]))


def known(request: str, computed: int, blocks: tuple[tuple[int, ...], ...] = ()) -> CachedRequest:
    """What a step says of a request that the rank has."""
    return msgspec.structs.replace(more(request, blocks), num_computed_tokens=computed)
