"""Turns a serving run into a `Record`: every event at its own virtual time, without a look at memory.

No oracle watches a serving run, so such a record has no writes and no violations; what broke is in the run's result. A
page holds some steps of the thousands: those around the first forward that met damage, or the last ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from stalerow.simulator.draw.record import (
    Asked,
    Event,
    Executed,
    Group,
    Prepared,
    Processed,
    Record,
    Scheduled,
    Unwatched,
)
from stalerow.simulator.draw.recorder import seats
from stalerow.simulator.draw.scheduling import processed, scheduled
from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.serve.job import ServeJob, serve
from stalerow.simulator.serve.report import RunResult
from stalerow.simulator.serve.workload import longest

STEPS_BEFORE, STEPS_AFTER = 12, 3
"""Steps that a page shows before the one that met damage, and after it; of a run without damage the last ones. A state
is read in the step after it was written, so the copy that did the damage is mostly among them."""

Actor = Literal["engine", "host", "main", "side"]
Seen = Scheduled | Processed | Prepared | Executed


class ServingRecorder:
    """A listener of `serve.serving.Serving`. Without `whole` it forgets steps that a page does not show."""

    def __init__(self, whole: bool = True) -> None:
        self._whole = whole
        self._seen: deque[tuple[Seen, Event]] = deque()
        self._inflight = 0
        self._damaged: int | None = None

    def damaged(self, step: int) -> None:
        self._damaged = step

    def scheduled(self, step: Step, inflight: int, start: int, end: int) -> None:
        self._inflight = inflight
        self._add("engine", -1, scheduled(step), start, end)

    def processed(self, step: Step, delivered: Delivered, inflight: int, start: int, end: int) -> None:
        self._inflight = inflight
        self._add("engine", -1, processed(step, delivered), start, end)

    def prepared(self, rank: RankV2, step: Step, fresh: Sequence[Operation], start: int, end: int) -> None:
        launches = tuple(operation.kind for operation in fresh)
        self._add("host", rank.index, Prepared(step=step.number, launches=launches), start, end)

    def executed(self, rank: RankV2, operation: Operation, side: bool, start: int, end: int) -> None:
        what = Executed(
            launch=operation.kind,
            step=operation.step,
            of=operation.batch_step,
            rows=seats(operation),
            table=-1 if rank.gathered_step is None else rank.gathered_step,
        )
        self._add("side" if side else "main", rank.index, what, start, end)

    def _add(self, actor: Actor, rank: int, what: Seen, start: int, end: int) -> None:
        if not self._whole:
            if self._damaged is None:
                self._forget(what.step - STEPS_BEFORE)
            elif what.step > self._damaged + STEPS_AFTER:
                return
        event = Event(number=0, actor=actor, rank=rank, start=start, end=end, in_flight=self._inflight, what=what)
        self._seen.append((what, event))

    def _forget(self, first: int) -> None:
        while self._seen and self._seen[0][0].step < first:
            self._seen.popleft()

    def record(self, result: RunResult, job: ServeJob, whole: bool) -> Record:
        """All that was kept, or what a page shows of it, events by their start."""
        options = job.options
        schedule = options.schedule(longest(job.requests))
        kernels = job.subject.load()
        steps = range(1, result.steps + 1) if whole else _shown(result)
        kept = sorted((pair for pair in self._seen if pair[0].step in steps), key=lambda pair: pair[1].start)
        return Record(
            kernels=result.kernels,
            pp=options.pipeline_parallel_size,
            drafts=options.num_speculative_tokens,
            runner="v2",
            num_blocks=options.num_gpu_blocks,
            lookup="slot" if kernels.align.reads_slot_tables else "row",
            groups=tuple(Group(kind=g.kind, block_size=g.block_size) for g in schedule.layout.groups),
            requests=tuple(Asked(id=r.id, prompt=r.prompt_len, max_tokens=r.max_tokens) for r in job.requests),
            events=tuple(msgspec.structs.replace(event, number=i) for i, (_, event) in enumerate(kept, 1)),
            steps=result.steps,
            stopped=result.died,
            digest=result.digest,
            unwatched=Unwatched(
                clean=result.clean, how=_how(result, steps), event=_met(result, [what for what, _ in kept])
            ),
        )


def _shown(result: RunResult) -> range:
    """The steps that a page shows."""
    last = result.steps if result.first_damage is None else min(result.first_damage[0] + STEPS_AFTER, result.steps)
    first = result.steps if result.first_damage is None else result.first_damage[0]
    return range(max(first - STEPS_BEFORE, 1), last + 1)


def _met(result: RunResult, seen: Sequence[Seen]) -> int:
    """The number of the event in which the last rank sampled from damage first; 0 if none did."""
    if result.first_damage is None:
        return 0
    step = result.first_damage[0]
    met = (
        i
        for i, what in enumerate(seen, 1)
        if isinstance(what, Executed) and (what.launch, what.step) == ("sample", step)
    )
    return next(met, 0)


def _how(result: RunResult, steps: range) -> str:
    shown = f"Shown: steps {steps[0]} to {steps[-1]} of {result.steps}." if steps else "No step was run."
    if result.clean:
        return f"Every answer is the one that its request gets alone, and no cached block holds another prefix. {shown}"
    counts = (
        f"{result.stuck} of {result.num_requests} requests are stuck in one token, {result.differing} got another "
        f"answer than alone, {result.poisoned_blocks} of {result.cached_blocks} cached blocks hold another prefix."
    )
    if result.first_damage is None:
        return f"{counts} No forward met damage. {shown}"
    step, request = result.first_damage
    return f"{counts} The first forward that met damage was {request}'s, in step {step}. {shown}"


@dataclass(frozen=True, slots=True)
class Served:
    """A run, the record that a page shows of it, and the whole record if that was asked for."""

    result: RunResult
    shown: Record
    whole: Record | None


def serve_recorded(job: ServeJob, whole: bool = False) -> Served:
    """Run one job in this process."""
    recorder = ServingRecorder(whole)
    result = serve(job, recorder)
    return Served(
        result, recorder.record(result, job, whole=False), recorder.record(result, job, whole=True) if whole else None
    )
