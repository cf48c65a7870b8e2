"""A serving run: client, engine, ranks and virtual time, until every request is answered.

The engine, the ranks and the kernels are those of every other run; this loop replaces the schedule's arrivals by a
client that keeps so many requests open, and the order of events by `costs`: whoever can start first acts first. All
times are integer microseconds. `report` reads what is left in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stalerow.kernels.base.memory import OutOfBounds
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.core import Delivered, EngineCore
from stalerow.simulator.engine.step import Step
from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.oracle.resources import Resources
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Forward, Operation, Postprocess, PostUpdate, Precopy, Sample
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.rank.wires import Wires
from stalerow.simulator.run.engine_loop import EngineLoop
from stalerow.simulator.schedule.choosers.latency import EarliestFirst
from stalerow.simulator.schedule.engine_config import engine_config
from stalerow.simulator.serve.acceptance import Acceptance
from stalerow.simulator.serve.client import Client
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.serve.listener import Listener
from stalerow.simulator.serve.model import ClosedLoop
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.serve.workload import ServeRequest, longest

LIVELOCK_STEPS = 2000
ENDS_BURST = (Forward, Sample)
"""Operations that let somebody else start."""


@dataclass(slots=True)
class Drafting:
    """Sums over verification steps whose output was delivered."""

    steps: int = 0
    accepted: int = 0


@dataclass(slots=True)
class Times:
    """When things become possible, in microseconds. Keys are steps, or (rank, step)."""

    engine: int = 0
    side: int = 0
    hosts: list[int] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=dict)
    enqueued: dict[tuple[int, int], int] = field(default_factory=dict)
    activations: dict[tuple[int, int], int] = field(default_factory=dict)
    sampled: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)


class NoPoison:
    """Recurrent blocks keep their old owner's bytes when they change hands, as they do in an engine."""

    def poison(self, step: Step) -> list[int]:
        return []


class Serving:
    """Runs one workload once. `died` says what killed the engine, if anything did; `found` what the engine held without
    need, or let wait."""

    def __init__(
        self,
        requests: Sequence[ServeRequest],
        options: ServeOptions,
        kernels: KernelSet,
        acceptance: Acceptance,
        costs: Costs,
        max_concurrency: int | None,
        seed: int,
        listener: Listener | None = None,
    ) -> None:
        self._listener = listener
        self.options, self.kernels, self.costs = options, kernels, costs
        schedule = options.schedule(longest(requests))
        self.pp = options.pipeline_parallel_size
        try:
            self.core = EngineCore(engine_config(schedule), options.profile)
            self.engine = EngineLoop(self.core, self)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self.layout = schedule.layout
        self.found: list[Violation] = []
        self.resources = Resources(self.core.config, self.found)
        self.model = ClosedLoop(requests, options.block_size, options.num_speculative_tokens, acceptance, seed)
        self.client = Client(requests, max_concurrency, costs.client)
        self.wires = Wires()
        self.ranks = [
            RankV2(i, schedule, kernels, self.wires, self.model, RankPolicy(schedule)) for i in range(self.pp)
        ]
        for rank in self.ranks:
            rank.harness = NoPoison()
        self.times = Times(hosts=[0] * self.pp, devices=[0] * self.pp)
        self.starts: dict[str, int] = {}
        self.order = EarliestFirst(self.starts)
        self.drafting = Drafting()
        self.preemptions = 0
        self._now = 0
        self.last_step: Step | None = None
        self.died = ""
        self._devices = [f"device{i}" for i in range(self.pp)]
        self._hosts = [f"host{i}" for i in range(self.pp)]

    def run(self) -> None:
        """Serve until every request is answered, or the engine dies."""
        while not self.died:
            enabled = self._enabled()
            if not enabled:
                break
            self._act(enabled[self.order.next(enabled)], enabled)
        if not self.died and not self.client.done:
            raise InternalError(f"nothing can act with steps {self.core.inflight} in flight")
        if not self.died:
            self.resources.final()

    def _enabled(self) -> list[str]:
        starts, times = self.starts, self.times
        starts.clear()
        for rank, name in zip(self.ranks, self._devices):
            if rank.queue.runnable():
                starts[name] = self._device_start(rank)
        side = self.ranks[-1].side
        if side.runnable():
            starts["side"] = max(times.side, times.sampled[side.head().step])
        for rank, name in zip(self.ranks, self._hosts):
            if rank.inbox:
                starts[name] = max(times.hosts[rank.index], times.sent[rank.inbox[0].number])
        engine = self._engine_start()
        if engine is not None:
            starts["engine"] = engine
        return list(starts)

    def _device_start(self, rank: RankV2) -> int:
        operation, times = rank.queue.head(), self.times
        start = max(times.devices[rank.index], times.enqueued[rank.index, operation.step])
        if isinstance(operation, Forward) and rank.index:
            start = max(start, times.activations[rank.index - 1, operation.step])
        elif isinstance(operation, PostUpdate) and not rank.is_last:
            start = max(start, times.received[operation.batch_step])
        return start

    def _engine_start(self) -> int | None:
        if self.engine.awaited is not None:
            available = self.times.outputs.get(self.engine.awaited.number)
            return None if available is None else max(self.times.engine, available)
        if self.engine.busy:
            return self.times.engine
        arrival = self.client.next_arrival
        return None if arrival is None else max(self.times.engine, arrival)

    def _act(self, actor: str, enabled: Sequence[str]) -> None:
        now = self.starts[actor]
        if actor == "engine":
            self._engine_act(now)
        elif actor == "side":
            operation = self.ranks[-1].execute_side()
            self.times.side = now + self.costs.broadcast
            self.times.received[operation.step] = self.times.side
            if self._listener is not None:
                self._listener.executed(self.ranks[-1], operation, True, now, self.times.side)
        elif actor.startswith("host"):
            self._host_act(self.ranks[int(actor[4:])], now)
        else:
            others = [self.starts[a] for a in enabled if a != actor]
            self._device_act(self.ranks[int(actor[6:])], min(others, default=None))

    def _host_act(self, rank: RankV2, now: int) -> None:
        step = rank.inbox[0]
        times = self.times
        done = times.hosts[rank.index] = now + self.costs.host
        times.enqueued[rank.index, step.number] = done
        queued = len(rank.queue), len(rank.side)
        rank.host_step()
        if rank.is_last and not step.rows:
            times.outputs[step.number] = done + self.costs.message
        if self._listener is not None:
            fresh = (*rank.queue.pending()[queued[0] :], *rank.side.pending()[queued[1] :])
            self._listener.prepared(rank, step, fresh, now, done)

    def _device_act(self, rank: RankV2, until: int | None) -> None:
        """Run the rank's operations in stream order until one concerns others or somebody else can start earlier."""
        start = self.starts[self._devices[rank.index]]
        while True:
            operation = rank.queue.head()
            try:
                rank.execute()
            except OutOfBounds as error:
                self.died = f"{operation.kind} on rank {rank.index} touches memory out of bounds: {error}"
                return
            done = self.times.devices[rank.index] = start + self._duration(rank, operation)
            self._announce(rank, operation, done)
            if self._listener is not None:
                self._listener.executed(rank, operation, False, start, done)
            if isinstance(operation, ENDS_BURST) or not rank.queue.runnable():
                return
            start = self._device_start(rank)
            if until is not None and start > until:
                return

    def _duration(self, rank: RankV2, operation: Operation) -> int:
        costs = self.costs
        if isinstance(operation, Forward):
            return costs.forward(_num_tokens(operation), self.pp)
        if isinstance(operation, Sample):
            return costs.sample + costs.draft * self.options.num_speculative_tokens
        if isinstance(operation, Precopy):
            return costs.copies(self.model.resolve(operation.step, operation.batch.rows).num_moves, self.pp)
        if isinstance(operation, Postprocess):
            return costs.copies(self.model.steps[operation.batch_step].num_saves, self.pp)
        return costs.launch

    def _announce(self, rank: RankV2, operation: Operation, done: int) -> None:
        times, number = self.times, operation.step
        if isinstance(operation, Forward):
            times.activations[rank.index, number] = done + self.costs.activations(_num_tokens(operation))
        elif isinstance(operation, Sample):
            times.sampled[number] = done
            times.outputs[number] = done + self.costs.message
            if self._listener is not None and self.model.first_damage and self.model.first_damage[0] == number:
                self._listener.damaged(number)

    def _engine_act(self, now: int) -> None:
        self._now = now
        step = self.engine.act()
        if step is not None:
            self._check_progress()
            self._forget(step.number - 2 * (self.pp + 2))

    def arrive(self, loop: EngineLoop) -> None:
        for request in self.client.arrivals(self._now):
            prompt = self.model.progress[request.id].history.tokens
            self.core.add_request(request.id, prompt, request.max_tokens, request.stop_token_ids)

    def before_schedule(self, loop: EngineLoop) -> None:
        """Nobody aborts."""

    def scheduled(self, loop: EngineLoop, step: Step) -> None:
        self.last_step = step
        self.resources.scheduled(step)
        self.preemptions += len(step.preempted)
        self.times.engine = self._now + self.costs.schedule
        self.times.sent[step.number] = self.times.engine + self.costs.message
        if step.rows:
            self.model.announced[step.number] = step
        for rank in self.ranks:
            rank.inbox.append(step)
        if self._listener is not None:
            self._listener.scheduled(step, len(self.core.inflight), self._now, self.times.engine)

    def before_process(self, loop: EngineLoop, step: Step) -> None:
        """Nobody aborts."""

    def sampled(self, step: Step) -> Mapping[str, Sequence[int]]:
        resolved = self.model.steps.get(step.number)
        return resolved.sampled if resolved else {}

    def delivered(self, loop: EngineLoop, step: Step, delivered: Delivered) -> None:
        sampled = self.sampled(step)
        self.resources.processed(step, {request: len(tokens) for request, tokens in sampled.items()})
        done = self.times.engine = self._now + (self.costs.process if step.rows else 0)
        if self._listener is not None:
            self._listener.processed(step, delivered, len(self.core.inflight), self._now, done)
        for row in step.rows:
            given = delivered.outputs.get(row.request)
            if given is None:
                continue
            count, reason = given
            self.model.progress[row.request].delivered += count
            self.client.deliver(row.request, count, reason, done)
            if row.num_drafts and sampled:
                self.drafting.steps += 1
                self.drafting.accepted += len(sampled[row.request]) - 1

    def _check_progress(self) -> None:
        if self.core.starved or self.core.schedules_since_delivery > LIVELOCK_STEPS:
            raise UsageError(
                f"--num-gpu-blocks {self.options.num_gpu_blocks} cannot hold the requests that run at once: "
                "raise it, or lower --max-num-seqs"
            )

    def _forget(self, number: int) -> None:
        """Drop what nobody asks for any more."""
        self.model.forget(number)
        times, wires = self.times, self.wires
        for by_step in (times.sent, times.sampled, times.received, times.outputs, wires.sampled):
            by_step.pop(number, None)
        for rank in range(self.pp):
            times.enqueued.pop((rank, number), None)
            times.activations.pop((rank, number), None)
        wires.activations.pop((self.pp - 1, number), None)
        wires.outputs.discard(number)
        wires.received.discard(number)


def _num_tokens(operation: Forward) -> int:
    batch = operation.batch
    return int(batch.query_start_loc[batch.num_rows])
