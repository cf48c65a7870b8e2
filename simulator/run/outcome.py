"""One schedule to one outcome: build the simulation, run it, and say what was found.

The outcome's digest covers every rank's whole memory after every forward; equal schedules and kernel sets give equal
digests on any machine, and so do the Triton and the reference form of the same kernel set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.released import check_layout, corrected, worker_policy
from stalerow.simulator.run.ordering import chooser as ordered
from stalerow.simulator.run.simulation import EngineFactory, Observer, Simulation
from stalerow.simulator.run.sizes import check_memory
from stalerow.simulator.schedule.choosers import OrderChooser
from stalerow.simulator.schedule.choosers.recording import Decision, RecordingOrder, deviations
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.values import Schedule

BY_THE_RUNNER = (
    "the release's runner does this, not its kernels: with the padded prompt of one token run as a verification row "
    "they show nothing"
)


class FaultUse(msgspec.Struct, frozen=True):
    """One fault in one run, or in several. met: whether the schedules have what it needs; calls: how often each hook
    was asked; runs: how many there were, one for each schedule that was not run since it lacks something."""

    name: str
    met: bool
    calls: Mapping[str, int]
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run showed. `digest` and `memory` are 32 hex digits: the digest covers the violations beside the memory.

    `stopped` names what ended the run early, if anything did. `taken` are the decisions that were made, in order,
    `faults` what became of the faults that were put in. `control` is the same run with the project's answer where a
    release's runner runs a padded prompt of one token, made if anything was found: what it shows is the kernels'.
    """

    schedule: Schedule
    kernels: str
    violations: tuple[Violation, ...]
    marks: dict[str, int]
    digest: str
    memory: str
    steps: int
    taken: Sequence[Decision]
    stopped: str
    faults: tuple[FaultUse, ...] = ()
    control: Outcome | None = None

    @property
    def decisions(self) -> int:
        return len(self.taken)

    @property
    def order(self) -> Order:
        """Deviations from the canonical order with which the schedule runs like this, whatever decided it."""
        return deviations(self.taken)

    @property
    def by_kernels(self) -> tuple[Violation, ...]:
        """The violations without those that are the release's runner's alone."""
        return self.violations if self.control is None else self.control.violations

    @property
    def clean(self) -> bool:
        return not self.violations


def run(
    schedule: Schedule,
    kernels: KernelSet,
    *,
    order: OrderChooser | None = None,
    policies: Policies | None = None,
    rank_policy: Callable[[Schedule], RankPolicy] = RankPolicy,
    observer: Observer | None = None,
    engine: EngineFactory | None = None,
) -> Outcome:
    """Run `schedule` with `kernels`; `engine` makes the one that schedules, `EngineCore` unless given.

    Raises `UsageError` for a schedule that no engine would accept, `RefusedLayout` for one that the kernels' own
    release would not.
    """
    check_memory(schedule)
    check_layout(schedule.layout, kernels.align)
    chooser = order or ordered(schedule)
    outcome = _run(schedule, kernels, chooser, policies, worker_policy(rank_policy, kernels.align), observer, engine)
    own = corrected(rank_policy, kernels.align)
    if outcome.clean or own is None or not _pads_first_tokens(schedule):
        return outcome
    again = msgspec.structs.replace(schedule, order=_as_taken(schedule.order, outcome.order))
    control = _run(again, kernels, ordered(again), policies, own, None, engine)
    if control.clean:
        told = [f"{violation.explanation}; {BY_THE_RUNNER}" for violation in outcome.violations]
        found = tuple(msgspec.structs.replace(v, explanation=text) for v, text in zip(outcome.violations, told))
        outcome = replace(outcome, violations=found)
    return replace(outcome, control=control)


def _pads_first_tokens(schedule: Schedule) -> bool:
    return schedule.pipeline.drafts > 0 and any(r.prompt_len == 1 for r in schedule.requests)


def _as_taken(order: Order, taken: Order) -> Order:
    """The order of events that was taken, with the order of programs inside launches that was asked for."""
    return msgspec.structs.replace(taken, threads=order.threads, lags=order.lags)


def _run(
    schedule: Schedule,
    kernels: KernelSet,
    order: OrderChooser,
    policies: Policies | None,
    worker: Callable[[Schedule], RankPolicy],
    observer: Observer | None,
    engine: EngineFactory | None,
) -> Outcome:
    chooser = RecordingOrder(order)
    simulation = Simulation(schedule, kernels, chooser, policies, worker, observer, engine)
    simulation.run()
    memory = b"".join(judge.digest() for judge in simulation.judges)
    return Outcome(
        schedule=schedule,
        kernels=kernels.name,
        violations=tuple(simulation.found),
        marks=dict(simulation.marks),
        digest=digest_of(memory, simulation.found),
        memory=digest_of(memory),
        steps=simulation.engine.steps,
        taken=chooser.decisions,
        stopped=simulation.engine.stopped,
    )


def digest_of(memory: bytes, violations: Iterable[Violation] = ()) -> str:
    """32 hex digits from the digests of all ranks (16 bytes each, in order) and the violations found."""
    digest = hashlib.blake2b(memory, digest_size=16)
    for violation in violations:
        digest.update(repr(violation.identity()).encode())
    return digest.hexdigest()
