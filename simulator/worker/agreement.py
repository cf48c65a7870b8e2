"""Our simulated ranks against an engine's own worker: one schedule through both, and the first value that differs.

At every forward of every rank both sides say who sits in which row, with which slot, tokens, counts and columns, what
the gathered tables hold, and what all owned memory holds afterwards (`protocol.RankStep`). Each side has an order of
events of its own, which must not matter. In: a schedule and a worker's name. Out: an `Agreement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.engine.profiles import profile
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Forward
from stalerow.simulator.rank.released import ReleasedTails
from stalerow.simulator.run.outcome import run
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.values import Schedule, with_profile
from stalerow.simulator.worker.environment import environment
from stalerow.simulator.worker.owned import owned_digest
from stalerow.simulator.worker.process import child
from stalerow.simulator.worker.protocol import RankStep
from stalerow.simulator.worker.served import served
from stalerow.simulator.worker.subject import ask

KERNELS = "reference:req-idx"
BY_ROW = ("tokens", "seq_lens", "verifies", "slots", "computed", "state_idx", "accepted")
BY_GROUP = ("tables", "columns")


class Difference(msgspec.Struct, frozen=True):
    """The first value that differs: `what` of `where` is `ours` with our ranks and `theirs` in the worker."""

    rank: int
    step: int
    what: str
    where: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        place = f"step {self.step}, rank {self.rank}: {self.what}{f' of {self.where}' if self.where else ''}"
        return f"{place}: our ranks have {self.ours}, the worker has {self.theirs}"


class Agreement(msgspec.Struct, frozen=True):
    """What was compared: engine steps, steps of ranks, single values. `found` are the worker's own violations."""

    steps: int
    rank_steps: int
    values: int
    difference: Difference | None
    found: tuple[Violation, ...] = ()


class Watching:
    """Observes a simulation; `steps` are what its ranks held, in the order of their forwards."""

    def __init__(self) -> None:
        self.steps: list[RankStep] = []

    def __call__(self, simulation: Simulation, actor: str, done: object) -> None:
        if isinstance(done, Forward):
            self.steps.append(_held(simulation, int(actor.removeprefix("device")), done))


def _held(simulation: Simulation, index: int, operation: Forward) -> RankStep:
    rank, judge, batch = simulation.ranks[index], simulation.judges[index], operation.batch
    layout, host, rows = rank.layout, rank.backend.to_host, range(batch.num_rows)
    slots, verifies = batch.slots, batch.is_spec.tolist()
    computed, state_idx, accepted = (
        # By the batch's own slots: the host may have given a request's slot away by the time the device gets here.
        host(getattr(rank.slots, name))[slots].tolist()
        for name in ("num_computed", "state_idx", "num_accepted")
    )
    used = [judge.ledger.columns[request] for request in batch.requests]
    tables = [host(table) for table in rank.tables.gathered]
    columns, seq_lens = host(rank.state_indices), host(rank.seq_lens)
    return RankStep(
        rank=index,
        step=batch.step,
        requests=batch.requests,
        tokens=tuple(np.diff(batch.query_start_loc[: len(rows) + 1]).tolist()),
        seq_lens=tuple(seq_lens[: len(rows)].tolist()),
        verifies=tuple(verifies),
        slots=tuple(slots.tolist()),
        computed=tuple(computed),
        state_idx=tuple(state_idx),
        accepted=tuple(n if spec else 1 for n, spec in zip(accepted, verifies)),
        tables=tuple(
            tuple(tuple(tables[g][i, : len(used[i][g])].tolist()) for i in rows) for g in range(len(layout.groups))
        ),
        columns=tuple(
            tuple(tuple(columns[g, i, : verifies[i] * layout.num_drafts + 1].tolist()) for i in rows)
            for g in range(len(layout.recurrent_groups))
        ),
        memory=owned_digest(layout, judge.ledger, rank.pool.pages(host(rank.pool.array))),
    )


def compare(ours: Iterable[RankStep], theirs: Iterable[RankStep]) -> tuple[int, Difference | None]:
    """How many values were compared, and the first that differs, by step and then by rank."""
    mine, other = ({(s.step, s.rank): s for s in steps} for steps in (ours, theirs))
    values = 0
    for step, rank in sorted(mine.keys() | other.keys()):
        a, b = mine.get((step, rank)), other.get((step, rank))
        if a is None or b is None:
            have, lack = ("a forward", "none") if b is None else ("none", "a forward")
            return values, Difference(rank, step, "forwards", "", have, lack)
        for what, where, left, right in _pairs(a, b):
            values += 1
            if left != right:
                return values, Difference(rank, step, what, where, left, right)
    return values, None


def _pairs(ours: RankStep, theirs: RankStep) -> Iterable[tuple[str, str, Any, Any]]:
    """(field, whose, our value, theirs), rows first: nothing else means anything if these differ."""
    yield "rows", "", ours.requests, theirs.requests
    for what in BY_ROW:
        yield from ((what, r, a, b) for r, a, b in zip(ours.requests, getattr(ours, what), getattr(theirs, what)))
    for what in BY_GROUP:
        groups: Sequence[Any] = getattr(ours, what)
        yield f"groups of {what}", "", len(groups), len(getattr(theirs, what))
        for g, (mine, other) in enumerate(zip(groups, getattr(theirs, what))):
            yield from ((what, f"{r} (group {g})", a, b) for r, a, b in zip(ours.requests, mine, other))
    yield "memory", "", ours.memory, theirs.memory


def agreement(worker: str, python: str, schedule: Schedule) -> Agreement:
    """Run a schedule, as it can be served, on both sides. Raises `UsageError` for a release without known rules."""
    made = as_compared(worker, python, schedule)
    ran = ask(worker, python, made, first_only=True, rank_steps=True)
    watching = Watching()
    run(made, kernel_set(KERNELS), rank_policy=ReleasedTails, observer=watching)
    values, difference = compare(_until(watching.steps, ran.ranks, ran.violations), ran.ranks)
    return Agreement(ran.steps, len(ran.ranks), values, difference, ran.violations)


def _until(ours: Sequence[RankStep], theirs: Sequence[RankStep], found: Sequence[Violation]) -> Sequence[RankStep]:
    """All of ours, or the steps that both have where a violation ended the worker's run early."""
    both = {(s.step, s.rank) for s in theirs}
    return [s for s in ours if (s.step, s.rank) in both] if found else ours


def as_compared(worker: str, python: str, schedule: Schedule) -> Schedule:
    """The schedule as it can be served, under the rules of the worker's release."""
    version = child(environment(worker, python)).version if not worker.startswith("vllm==") else worker
    try:
        rules = profile(version).name
    except ValueError as error:
        raise UsageError(f"--worker {worker} cannot be compared with our ranks: {error}") from None
    return with_profile(served(schedule), rules)
