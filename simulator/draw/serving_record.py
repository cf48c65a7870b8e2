"""Turns a serving run into a `Record`: every event at its own virtual time, without a look at memory.

No oracle watches a serving run, so such a record has no writes and no violations; what broke is in the run's result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stalerow.kernels.sets import KernelSet
from stalerow.simulator.draw.record import (
    Asked,
    Event,
    Executed,
    Group,
    Prepared,
    Record,
    What,
)
from stalerow.simulator.draw.recorder import seats
from stalerow.simulator.draw.scheduling import processed, scheduled
from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.serve.report import RunResult
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.serve.workload import ServeRequest, longest


class ServingRecorder:
    """A listener of `serve.serving.Serving`."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._inflight = 0

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

    def _add(self, actor, rank: int, what: What, start: int, end: int) -> None:
        event = Event(number=0, actor=actor, rank=rank, start=start, end=end, in_flight=self._inflight, what=what)
        self._events.append(event)

    def record(
        self, result: RunResult, options: ServeOptions, kernels: KernelSet, requests: Sequence[ServeRequest]
    ) -> Record:
        """The whole run, events by their start."""
        schedule = options.schedule(longest(requests))
        ordered = sorted(self._events, key=lambda event: event.start)
        return Record(
            kernels=result.kernels,
            pp=options.pipeline_parallel_size,
            drafts=options.num_speculative_tokens,
            runner="v2",
            num_blocks=options.num_gpu_blocks,
            lookup="slot" if kernels.align.reads_slot_tables else "row",
            groups=tuple(Group(kind=g.kind, block_size=g.block_size) for g in schedule.layout.groups),
            requests=tuple(Asked(id=r.id, prompt=r.prompt_len, max_tokens=r.max_tokens) for r in requests),
            events=tuple(msgspec.structs.replace(event, number=i) for i, event in enumerate(ordered, 1)),
            steps=result.steps,
            stopped=result.died,
            digest=result.digest,
        )
