"""The engine core: the scheduler and the FIFO of steps in flight.

In: `add_request`, `abort`, and what the last rank sampled (`process`). Out: one `Step` per `schedule`, one
`Delivered` per `process`. The caller decides when; vLLM's own loop (step_with_batch_queue) schedules while
`can_schedule`, and processes the oldest step otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.outputs import Outputs
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.profiles import Profile
from stalerow.simulator.engine.profiles import profile as find_profile
from stalerow.simulator.engine.request import PLAIN, Request, RequestOptions
from stalerow.simulator.engine.scheduler import Scheduler
from stalerow.simulator.engine.step import BlockLists, Step


class Delivered(msgspec.Struct, frozen=True):
    """What processing one step's output gave to the clients.

    `outputs`: per request in the step's order, the number of tokens delivered and the finish reason
    ("length", "stop" or None); requests that sampled nothing are absent. `ignored`: rows of requests that
    were gone.
    """

    step: int
    outputs: Mapping[str, tuple[int, str | None]]
    ignored: tuple[str, ...]


class EngineCore:
    """One engine process: feed it requests, call `schedule` and `process` in any order that it allows."""

    def __init__(self, config: EngineConfig, profile: Profile | str = "0.33", policies: Policies | None = None) -> None:
        self.config = config
        self.profile = find_profile(profile) if isinstance(profile, str) else profile
        self.scheduler = Scheduler(config, self.profile, policies or Policies())
        self._outputs = Outputs(self.scheduler, self.profile)
        self._fifo: deque[Step] = deque()
        self._schedules_since_delivery = 0

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        max_tokens: int,
        stop_token_ids: Collection[int] = (),
        options: RequestOptions = PLAIN,
    ) -> None:
        """Queue a request. ValueError for a known id or lengths that the model does not take."""
        self.scheduler.add_request(request_id, prompt_token_ids, max_tokens, stop_token_ids, options)
        self._schedules_since_delivery = 0

    def abort(self, request_ids: Iterable[str]) -> tuple[str, ...]:
        """Abort requests at once, in order; unknown and finished ids are skipped. Returns those aborted."""
        aborted = self.scheduler.abort(request_ids)
        if aborted:
            self._schedules_since_delivery = 0
        return aborted

    def reset_prefix_cache(self, reset_running_requests: bool) -> bool:
        """Forget every cached prefix, as after a change of weights; True if that was done.

        It is done only while no block is in use. With `reset_running_requests` running requests are preempted first:
        their output in flight is dropped, and they may be admitted again by the very next schedule.
        """
        self._schedules_since_delivery = 0
        return self.scheduler.reset_prefix_cache(reset_running_requests)

    @property
    def has_requests(self) -> bool:
        """Whether the scheduler has something to tell: unfinished requests, or finished ids not sent yet."""
        return self.scheduler.has_requests

    @property
    def can_schedule(self) -> bool:
        """Whether the FIFO has room and there is something to schedule."""
        return len(self._fifo) < self.config.max_inflight_steps and self.scheduler.has_requests

    @property
    def inflight(self) -> tuple[int, ...]:
        """Numbers of the steps scheduled and not processed, oldest first."""
        return tuple(step.number for step in self._fifo)

    @property
    def inflight_steps(self) -> tuple[Step, ...]:
        """The steps scheduled and not processed, oldest first."""
        return tuple(self._fifo)

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, running or in flight."""
        return not self._fifo and not self.scheduler.has_requests

    @property
    def starved(self) -> bool:
        """Whether no later step can differ from the last one unless a request arrives or is aborted.

        True after an empty step with nothing else in flight: the pool is too small for the head of the queue.
        """
        return self.scheduler.last_step_was_futile and all(not step.rows for step in self._fifo)

    @property
    def schedules_since_delivery(self) -> int:
        """Steps scheduled since a token was delivered or a request came or went: bound it to catch livelock.

        A pool that makes a request preempt itself for ever schedules tokens without end and delivers none.
        """
        return self._schedules_since_delivery

    def schedule(self) -> Step:
        """Decide the next step and append it to the FIFO. RuntimeError if `can_schedule` is False."""
        if not self.can_schedule:
            why = "the FIFO is full" if self.scheduler.has_requests else "there is nothing to schedule"
            raise RuntimeError(f"schedule() with {len(self._fifo)} steps in flight: {why}; check can_schedule first")
        step = self.scheduler.schedule()
        self._fifo.append(step)
        self._schedules_since_delivery += 1
        return step

    def process(self, sampled: Mapping[str, Sequence[int]]) -> Delivered:
        """Pop the oldest step and apply what its last rank sampled.

        `sampled` maps request ids to the tokens returned (accepted drafts plus one); rows that sample nothing
        may be absent. Tokens past a request's cap are dropped. RuntimeError if nothing is in flight,
        ValueError if a row returns more tokens than it can.
        """
        if not self._fifo:
            raise RuntimeError("process() with no step in flight: expected a scheduled step; call schedule() first")
        step = self._fifo[0]
        outputs, ignored = self._outputs.update(step, sampled)
        self._fifo.popleft()
        if outputs:
            self._schedules_since_delivery = 0
        return Delivered(step.number, outputs, ignored)

    def request(self, request_id: str) -> Request | None:
        """The live state of a request that is waiting or running, None once it is finished. Read only."""
        return self.scheduler.requests.get(request_id)

    def token_ids(self, request_id: str) -> tuple[int, ...]:
        """Prompt and delivered outputs of an unfinished request. KeyError if there is none."""
        return tuple(self.scheduler.requests[request_id].token_ids)

    @property
    def running(self) -> tuple[str, ...]:
        """Running requests in scheduling order."""
        return tuple(request.id for request in self.scheduler.running)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Waiting and preempted requests in queue order."""
        return tuple(request.id for request in self.scheduler.waiting)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be handed out, cached ones that nobody uses included."""
        return self.scheduler.cache.pool.num_free_blocks

    def block_lists(self) -> Mapping[str, BlockLists]:
        """The scheduler's block lists now, per request and group, null = 0; absent without blocks."""
        return self.scheduler.cache.block_lists()
