"""A line per event of a run: what the engine scheduled and processed, what each host enqueued and each device did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from stalerow.simulator.draw.prose import say
from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.operations import (
    Advance,
    BlockCounts,
    Forward,
    Free,
    Gather,
    Indices,
    Operation,
    Postprocess,
    PostUpdate,
    Preprocess,
    ScatterAccepted,
    Seed,
    Zero,
)

if TYPE_CHECKING:
    from stalerow.simulator.oracle.violations import Violation
    from stalerow.simulator.run.simulation import Simulation

ACTOR = 10
"""Columns for who acts."""
QUIET = (BlockCounts, Preprocess, Indices, Advance, Seed, Free)


class EventPrinter:
    """An observer that prints events as they happen; bookkeeping launches are left out."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._found = 0

    def __call__(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> None:
        found = simulation.found[self._found :]
        self._found = len(simulation.found)
        for line in (*([] if isinstance(done, QUIET) else told(actor, done)), *map(complaint, found)):
            say(self._out, line, ACTOR)


def told(actor: str, done: Operation | Step | None) -> list[str]:
    """An event in a line; none for what has nothing to tell."""
    if isinstance(done, Step):
        return [f"{actor:<{ACTOR}}schedules step {done.number}: {_step(done)}"]
    return [] if done is None else [f"{actor:<{ACTOR}}step {done.step}: {_operation(done)}"]


def complaint(violation: Violation) -> str:
    """A violation in a line below its event."""
    return f"{'':{ACTOR}}!! {violation.kind}: {violation.explanation}"


def _step(step: Step) -> str:
    rows = [
        f"{r.request}[{r.num_computed_tokens}+{r.num_tokens}{f'd{r.num_drafts}' if r.num_drafts else ''}]"
        for r in step.rows
    ]
    notes = [f"new {n.request} hit {n.num_computed_tokens} blocks {_lists(n.block_ids)}" for n in step.new]
    notes += [f"{c.request} + {_lists(c.new_block_ids)}" for c in step.cached if c.new_block_ids]
    for name, ids in (("finished", step.finished), ("preempted", step.preempted)):
        if ids:
            notes.append(f"{name} {', '.join(ids)}")
    return " ".join([*rows, *([f"({'; '.join(notes)})"] if notes else [])]) or "empty"


def _lists(ids) -> str:
    return " / ".join(",".join(map(str, group)) or "-" for group in ids)


def _operation(done: Operation) -> str:
    match done:
        case Gather():
            return "gather " + ", ".join(f"row {i} {r}" for i, r in enumerate(done.batch.requests))
        case PostUpdate() | ScatterAccepted() | Postprocess():
            return f"{done.kind} of step {done.batch_step} for {', '.join(done.output.kept)}"
        case Forward():
            return "forward " + ", ".join(done.batch.requests)
        case Zero():
            return f"zero blocks {', '.join(map(str, done.blocks))}"
        case _:
            return done.kind
