"""The event loop: one schedule, one kernel set, and whoever may act next.

Actors are the engine, each rank's host, each rank's device and the last rank's side stream. Whenever two or more of
them can act, the order chooser picks; the canonical order lets work that is under way finish before new work starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

from stalerow.kernels.base.device import DeviceError
from stalerow.kernels.base.memory import OutOfBounds
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.core import Delivered, EngineCore
from stalerow.simulator.engine.interface import Engine
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.step import Step
from stalerow.simulator.errors import BrokenRule, CannotCompile, InternalError, UsageError
from stalerow.simulator.files import one_line
from stalerow.simulator.oracle.judge import RankJudge
from stalerow.simulator.oracle.resources import Resources
from stalerow.simulator.oracle.violations import ENGINE, Marks, Violation
from stalerow.simulator.oracle.watch import Watch
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.operations import Forward, Indices, Operation, Postprocess, Precopy, Preprocess
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.v1 import RankV1
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.rank.wires import Wires
from stalerow.simulator.run.blame import kernel_raised
from stalerow.simulator.run.engine_loop import EngineLoop
from stalerow.simulator.run.events import event
from stalerow.simulator.run.situations import Situations
from stalerow.simulator.run.threads import threads
from stalerow.simulator.schedule.choosers import OrderChooser
from stalerow.simulator.schedule.engine_config import engine_config
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.plan import Planner

UNDER_TEST = (Preprocess, Precopy, Postprocess, Indices)
"""Operations that launch a kernel under test: what these raise is a finding."""

Observer = Callable[["Simulation", str, "Operation | Step | None"], None]
EngineFactory = Callable[[EngineConfig], Engine]
WatchFactory = Callable[[Rank, Planner, Marks, list[Violation]], Watch]


class Simulation:
    """Runs one schedule. `found` collects violations in the order of their discovery."""

    def __init__(
        self,
        schedule: Schedule,
        kernels: KernelSet,
        order: OrderChooser,
        policies: Policies | None = None,
        rank_policy: Callable[[Schedule], RankPolicy] = RankPolicy,
        observer: Observer | None = None,
        engine: EngineFactory | None = None,
        watch: WatchFactory = RankJudge,
        planner: type[Planner] = Planner,
    ) -> None:
        self.schedule, self.kernels, self.order, self.observer = schedule, kernels, order, observer
        self.marks, self.found = Marks(), list[Violation]()
        layout, pipeline = schedule.layout, schedule.pipeline
        try:
            config = engine_config(schedule)
            self.max_inflight_steps = config.max_inflight_steps
            core = engine(config) if engine else EngineCore(config, pipeline.profile, policies)
            self.engine = EngineLoop(core, self)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self.resources = Resources(config, self.found)
        self.planner = planner(schedule.requests, layout.recurrent_block_size, pipeline.drafts)
        self.situations = Situations(schedule, self.planner, self.marks)
        self.wires = Wires()
        rank_class = RankV1 if pipeline.runner == "v1" else RankV2
        self.ranks: list[Rank] = [
            rank_class(i, schedule, kernels, self.wires, self.planner, rank_policy(schedule))
            for i in range(pipeline.pp)
        ]
        self.judges = [watch(rank, self.planner, self.marks, self.found) for rank in self.ranks]
        for rank, judge in zip(self.ranks, self.judges):
            rank.harness = judge
        self.threads = threads(schedule, kernels)
        self._over = False
        self._acts = self._actors()
        streams = [(f"device{rank.index}", rank.queue) for rank in self.ranks] + [("side", self.ranks[-1].side)]
        self._streams = [(name, queue.operations) for name, queue in streams]
        self._hosts = [(f"host{rank.index}", rank.inbox, rank.host_ready) for rank in self.ranks]
        self._arrivals = sorted(schedule.requests, key=lambda r: r.arrival)
        self._next_arrival = 0
        self._last_step: Step | None = None
        self._taken_by_last: set[int] = set()

    def _actors(self) -> dict[str, Callable[[], Operation | Step | None]]:
        """What lets each actor act, by its name."""
        acts: dict[str, Callable[[], Operation | Step | None]] = {
            "engine": self._engine_act,
            "side": self._side_act,
        }
        for rank, judge in zip(self.ranks, self.judges):
            acts[f"device{rank.index}"] = partial(self._device_act, rank, judge)
            acts[f"host{rank.index}"] = partial(self._host_act, rank)
        return acts

    def run(self) -> None:
        """Run until nothing can act any more, then check what the prefix cache still offers."""
        acts, observer, pending = self._acts, self.observer, partial(event, self.ranks)
        while not self._over and (enabled := self._enabled()):
            actor = enabled[self.order.next(enabled, pending) if len(enabled) > 1 else 0]
            try:
                done = acts[actor]()
            except (BrokenRule, AssertionError) as error:
                if isinstance(error, AssertionError) and actor != "engine":
                    raise
                self._broken_rule(error)
                return
            if observer is not None:
                observer(self, actor, done)
        if self.engine.core.inflight and not self.engine.stopped and not self.found:
            raise InternalError(f"nothing can act with steps {self.engine.core.inflight} in flight")
        if self._last_step is not None and not self.engine.stopped:
            self.resources.final()
            for judge in self.judges:
                judge.final(self._last_step.hashed)

    def _enabled(self) -> list[str]:
        """Who can act now, in canonical order. Asked before every event, so it calls as little as it can."""
        enabled = []
        for name, operations in self._streams:
            if operations:
                ready = operations[0].ready
                if ready is None or ready():
                    enabled.append(name)
        for name, inbox, ready in self._hosts:
            if inbox and ready():
                enabled.append(name)
        if self._engine_ready():
            enabled.append("engine")
        return enabled

    def _device_act(self, rank: Rank, judge: Watch) -> Operation:
        operation = rank.queue.head()
        judge.before(operation)
        interleaved = self.threads if isinstance(operation, UNDER_TEST) else None
        known = len(self.found)
        try:
            with interleaved.around(rank.index, operation) if interleaved else nullcontext():
                rank.execute()
        except DeviceError as error:
            raise CannotCompile(str(error)) from error
        except Exception as error:
            if isinstance(operation, UNDER_TEST) and not isinstance(error, (OutOfBounds, UsageError)):
                self.found.append(kernel_raised(rank.index, operation, error))
                self.engine.stopped = "kernel raised"
                self._over = True
                return operation
            refused = isinstance(operation, Forward) and isinstance(error, ValueError)
            if not (refused or isinstance(error, OutOfBounds)):
                raise
            self._out_of_bounds(rank, operation, error)
            rank.after_failed(operation)
            judge.accept()
            return operation
        judge.after(operation)
        if interleaved:
            interleaved.named(self.found, known, operation)
        return operation

    def _side_act(self) -> Operation:
        rank, judge = self.ranks[-1], self.judges[-1]
        judge.before(rank.side.head())
        operation = rank.execute_side()
        judge.after(operation)
        return operation

    def _broken_rule(self, error: Exception) -> None:
        """What the engine decides after breaking one of its rules means nothing: the run ends."""
        step = self.engine.steps + 1
        self.found.append(
            Violation(
                kind="broken rule",
                rank=ENGINE,
                launch="schedule",
                step=step,
                during=step,
                explanation=f"the engine broke a rule of its own: {one_line(error) or type(error).__name__}",
            )
        )
        self.engine.stopped = "broken rule"

    def _out_of_bounds(self, rank: Rank, operation: Operation, error: Exception) -> None:
        """A kernel was told to leave its arrays; the stand-in forward refuses counts that its inputs cannot have."""
        block = getattr(error, "block_id", None)
        of = operation.batch_step
        self.found.append(
            Violation(
                kind="out of bounds",
                rank=rank.index,
                launch=operation.kind,
                step=of,
                during=operation.step,
                deferred=of != operation.step,
                target_block=-1 if block is None else block,
                explanation=f"{operation.kind} of step {of} on rank {rank.index} touches memory out of bounds: {error}",
            )
        )

    def _host_act(self, rank: Rank) -> None:
        step = rank.inbox[0]
        self.marks.add("device lag", any(o.step < step.number for o in rank.queue.pending()))
        rank.host_step()
        if rank.is_last:
            self._taken_by_last.add(step.number)

    def _engine_ready(self) -> bool:
        engine = self.engine
        if engine.stopped:
            return False
        oldest = engine.awaited
        if oldest is None:
            return engine.busy or self._next_arrival < len(self._arrivals)
        return oldest.number in (self.wires.outputs if oldest.rows else self._taken_by_last)

    def _engine_act(self) -> Step | None:
        engine = self.engine
        step = engine.act()
        if step is not None:
            if engine.steps >= self.schedule.limits.max_steps:
                engine.stopped = "step limit"
            elif engine.core.starved and self._next_arrival >= len(self._arrivals) and not self.schedule.aborts:
                engine.stopped = "starved"
                self.resources.starved()
        return step

    def arrive(self, loop: EngineLoop) -> None:
        """Requests arrive at iterations of the loop, which waits for nobody: an idle engine skips to the next."""
        if not loop.busy:
            loop.iteration = max(loop.iteration, self._arrivals[self._next_arrival].arrival)
        while self._next_arrival < len(self._arrivals):
            request = self._arrivals[self._next_arrival]
            if request.arrival > loop.iteration:
                break
            prompt, stop = self.planner.prompt(request.id), self.planner.stop_tokens(request.id)
            loop.core.add_request(request.id, prompt, request.max_tokens, stop, request.options)
            self.situations.arrived(request.id)
            self._next_arrival += 1

    def before_schedule(self, loop: EngineLoop) -> None:
        self._abort("pre_schedule", loop.steps + 1)
        for reset in self.schedule.resets:
            if reset.step == loop.steps + 1:
                self.situations.reset(loop.core.reset_prefix_cache(reset.running))
                self.resources.reset()

    def scheduled(self, loop: EngineLoop, step: Step) -> None:
        plan = self.planner.plan(step)
        self.resources.scheduled(step)
        self._last_step = step
        for rank in self.ranks:
            rank.inbox.append(step)
        self.situations.scheduled(step, plan)

    def before_process(self, loop: EngineLoop, step: Step) -> None:
        self._abort("pre_update", loop.steps)

    def sampled(self, step: Step) -> Mapping[str, Sequence[int]]:
        return self.planner.plans[step.number].sampled

    def delivered(self, loop: EngineLoop, step: Step, delivered: Delivered) -> None:
        counts = {name: len(ids) for name, ids in self.planner.plans[step.number].sampled.items()}
        self.resources.processed(step, counts)
        self.situations.delivered(delivered)

    def _abort(self, phase: str, step: int) -> None:
        ids = [a.request for a in self.schedule.aborts if a.step == step and a.phase == phase]
        if not ids:
            return
        busy = {r.request for s in self.engine.core.inflight_steps for r in s.rows}
        aborted = self.engine.core.abort(ids)
        self.marks.add("abort with work in flight", len(busy & {*aborted}))
