"""One schedule through the engine's own scheduler and workers: who may act next, and what is known at the end.

The loop is the engine core's. Each rank's host does one step at a time; it may when the rank before has sent its
activations and, since everything runs at once here, when the broadcast that it will wait for has been sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stalerow.simulator.draw.scheduling import processed, scheduled
from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.resources import Resources
from stalerow.simulator.oracle.violations import Marks, Violation
from stalerow.simulator.run.engine_loop import EngineLoop
from stalerow.simulator.run.ordering import chooser
from stalerow.simulator.run.situations import Situations
from stalerow.simulator.schedule.choosers import Event, Place
from stalerow.simulator.schedule.choosers.recording import RecordingOrder
from stalerow.simulator.schedule.engine_config import engine_config
from stalerow.simulator.truth.plan import Planner
from stalerow.simulator.worker.inside import configure, pipeline
from stalerow.simulator.worker.inside.judge import Judge
from stalerow.simulator.worker.inside.rank import Rank
from stalerow.simulator.worker.inside.recorder import RankRecorder, Recorder
from stalerow.simulator.worker.inside.session import LocalScheduler, engine_of
from stalerow.simulator.worker.inside.truth import Truth
from stalerow.simulator.worker.inside.warm import Engine
from stalerow.simulator.worker.protocol import Run

MAX_VIOLATIONS = 40


class Enough(Exception):
    """The first violation has been found, and no more are asked for."""


class World:
    """The engine, its ranks, and the order of events; the loop's `Client`."""

    def __init__(self, engine: Engine, question: Run) -> None:
        schedule = self.schedule = question.schedule
        self._first_only = question.first_only
        self.marks, self.found = Marks(), list[Violation]()
        layout, pp = schedule.layout, schedule.pipeline.pp
        self.planner = Planner(schedule.requests, layout.recurrent_block_size, layout.num_drafts)
        self.truth = Truth(schedule, self.planner)
        self.situations = Situations(schedule, self.planner, self.marks)
        self.recorder = Recorder(schedule, self.planner) if question.record else None
        self.group = pipeline.PipelineGroup(pp)
        pipeline.install(self.group)
        session = configure.scheduler(engine, schedule)
        self.ranks: list[Rank] = []
        for index in range(pp):
            config = configure.rank_config(session, layout, index)
            rank = Rank(index, schedule, config, self.planner, self.truth, self.group)
            recorder = RankRecorder(self.recorder, index, rank.memory.pages) if self.recorder is not None else None
            rank.judge = Judge(rank, self.marks, self._report, recorder, question.rank_steps)
            self.ranks.append(rank)
        self.scheduler = LocalScheduler(session)
        options = engine_config(schedule)
        self.loop = EngineLoop(engine_of(self.scheduler, options), self)
        self._held = list[Violation]()
        self.resources = Resources(options, self._held)
        self.order = RecordingOrder(chooser(schedule))
        self.steps: list[Step] = []
        self.rank_steps = 0
        self._inboxes = [deque[tuple[Step, bytes]]() for _ in range(pp)]
        self._done = [0] * pp
        self._aborted = set[str]()
        self._activations: dict[tuple[int, int], Any] = {}
        self._outputs: dict[int, Any] = {}
        self._arrivals = deque(sorted(schedule.requests, key=lambda r: r.arrival))
        self._acts: dict[str, Callable[[], object]] = {"engine": self._engine_act}
        for index in range(pp):
            self._acts[f"host{index}"] = partial(self._host_act, index)

    def _report(self, violation: Violation) -> None:
        if len(self.found) < MAX_VIOLATIONS and violation not in self.found:
            self.found.append(violation)
            if self.recorder is not None:
                self.recorder.found(violation, len(self.found) - 1)
        if self._first_only:
            raise Enough

    def settle(self, violation: Violation) -> None:
        """What ran before the engine raised was meant to do nothing that is known."""
        if violation.rank >= 0:
            self.ranks[violation.rank].judge.settle(violation.launch, violation.step, violation.during)

    def _report_held(self) -> None:
        """What the judge of the engine's resources has found since it was last asked."""
        held = self._held[:]
        self._held.clear()
        for violation in held:
            self._report(violation)

    def run(self) -> None:
        while enabled := self._enabled():
            choice = self.order.next(enabled, _everything) if len(enabled) > 1 else 0
            self._acts[enabled[choice]]()
        if not self.loop.stopped:
            self.resources.final()
            self._report_held()
            self._leftovers()

    def _enabled(self) -> list[str]:
        pp = self.schedule.pipeline.pp
        enabled = []
        for index in range(pp):
            if not self._inboxes[index]:
                continue
            step = self._inboxes[index][0][0]
            arrived = index == 0 or self._done[index - 1] >= step.number
            broadcast = index == pp - 1 or self._done[pp - 1] >= step.number - pp
            if arrived and broadcast:
                enabled.append(f"host{index}")
        if self._engine_ready():
            enabled.append("engine")
        return enabled

    def _engine_ready(self) -> bool:
        loop = self.loop
        if loop.stopped:
            return False
        if loop.awaited is None:
            return bool(loop.busy or self._arrivals)
        return self._done[-1] >= loop.awaited.number

    def _host_act(self, index: int) -> None:
        step, message = self._inboxes[index].popleft()
        rank = self.ranks[index]
        arriving = self._activations.pop((index - 1, step.number), None)
        if self.recorder is not None:
            self.recorder.prepared(index, step)
        leaving, result = rank.execute(step, message, arriving)
        if leaving is not None and not rank.is_last:
            self._activations[index, step.number] = leaving
        if rank.is_last:
            self._outputs[step.number] = result
        self._done[index] = step.number
        self.rank_steps += 1

    def _engine_act(self) -> None:
        loop = self.loop
        scheduled = loop.act()
        self._report_held()
        if scheduled is None:
            return
        if loop.steps >= self.schedule.limits.max_steps:
            loop.stopped = "step limit"
        elif loop.core.starved and not self._arrivals and not self.schedule.aborts:
            loop.stopped = "starved"

    def arrive(self, loop: EngineLoop) -> None:
        if not loop.busy:
            loop.iteration = max(loop.iteration, self._arrivals[0].arrival)
        while self._arrivals and self._arrivals[0].arrival <= loop.iteration:
            request = self._arrivals.popleft()
            prompt, stop = self.planner.prompt(request.id), self.planner.stop_tokens(request.id)
            loop.core.add_request(request.id, prompt, request.max_tokens, stop, request.options)
            self.situations.arrived(request.id)

    def before_schedule(self, loop: EngineLoop) -> None:
        self._abort("pre_schedule", loop.steps + 1)
        for reset in self.schedule.resets:
            if reset.step == loop.steps + 1:
                self.situations.reset(loop.core.reset_prefix_cache(reset.running))
                self.resources.reset()

    def scheduled(self, loop: EngineLoop, step: Step) -> None:
        self.steps.append(step)
        plan = self.planner.plan(step)
        self.truth.planned(step)
        self.resources.scheduled(step)
        for inbox in self._inboxes:
            inbox.append((step, self.scheduler.message))
        self.situations.scheduled(step, plan)
        if self.recorder is not None:
            self.recorder.scheduled(scheduled(step, self._aborted), len(loop.core.inflight))

    def before_process(self, loop: EngineLoop, step: Step) -> None:
        """The host waits for the worker's output here, and checks the tokens in it."""
        self._abort("pre_update", loop.steps)
        output = self._outputs.pop(step.number)
        if step.rows:
            output = output.get_output() if hasattr(output, "get_output") else output
            found = {r: [int(t) for t in ids] for r, ids in zip(output.req_ids, output.sampled_token_ids)}
            wanted = self.planner.plans[step.number].sampled
            if found != wanted:
                self._check_sampled(step, found)
                # Go on with what was planned: wrong tokens make every later step differ.
                output.sampled_token_ids = [wanted.get(request, []) for request in output.req_ids]
        self.scheduler.output = output

    def sampled(self, step: Step) -> Mapping[str, Sequence[int]]:
        return self.planner.plans[step.number].sampled

    def delivered(self, loop: EngineLoop, step: Step, delivered: Delivered) -> None:
        counts = {name: len(ids) for name, ids in self.planner.plans[step.number].sampled.items()}
        self.resources.processed(step, counts)
        if self.recorder is not None:
            self.recorder.processed(processed(step, delivered), len(loop.core.inflight))
        self.situations.delivered(delivered)

    def _check_sampled(self, step: Step, sampled: dict[str, list[int]]) -> None:
        for request, wanted in self.planner.plans[step.number].sampled.items():
            found = sampled.get(request, [])
            if found != wanted:
                last = len(self.ranks) - 1
                self._report(
                    Violation(
                        kind="output divergence",
                        rank=last,
                        launch="sample",
                        step=step.number,
                        during=step.number,
                        request=request,
                        explanation=(
                            f"sample of step {step.number} on rank {last}: {request} gets tokens {found}; the model "
                            f"and the schedule's acceptance give {wanted}"
                        ),
                    )
                )

    def _abort(self, phase: str, step: int) -> None:
        ids = [a.request for a in self.schedule.aborts if a.step == step and a.phase == phase]
        if not ids:
            return
        core = self.loop.core
        busy = {row.request for s in core.inflight_steps for row in s.rows}
        aborted = core.abort(ids)
        self._aborted.update(aborted)
        self.marks.add("abort with work in flight", len(busy & {*aborted}))

    def _leftovers(self) -> None:
        """Once everything has ended nobody may wait for a broadcast that was never sent, nor leave one behind."""
        last = len(self.steps)
        for rank, receives, sends in self.group.leftovers():
            text = f"rank {rank} is left with {receives} broadcasts to receive and {sends} sent to it"
            self._report(Violation(kind="leak", rank=rank, launch="end", step=last, during=last, explanation=text))


def _everything(actor: str) -> Event:
    """What an actor would touch is not told apart: no two of the engine's own steps are taken to commute."""
    whole = frozenset([Place("engine")])
    return Event(actor, whole, whole)
