"""The scheduler: which requests compute how many tokens in the next step.

In: requests and aborts, through `EngineCore`. Out: `Step` values; `outputs` says what their outputs change. Public
source: vLLM's Scheduler and AsyncScheduler, without connectors, encoders or structured output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stalerow.simulator.engine.admission import Admission
from stalerow.simulator.engine.cache import KVCache
from stalerow.simulator.engine.cadence import PrefillCadence
from stalerow.simulator.engine.config import EngineConfig, misfit
from stalerow.simulator.engine.draft_step import StepDraft
from stalerow.simulator.engine.hashing import PrefixHasher
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.profiles import Profile
from stalerow.simulator.engine.request import PLAIN, Request, RequestOptions, Status
from stalerow.simulator.engine.rules import CacheRules
from stalerow.simulator.engine.step import Step
from stalerow.simulator.engine.waiting import WaitingQueue
from stalerow.simulator.errors import BrokenRule


class Scheduler:
    """State between steps: known requests, the running list, the waiting queue, the KV cache."""

    def __init__(self, config: EngineConfig, profile: Profile, policies: Policies) -> None:
        self.config = config
        self.policies = policies
        self.rules = CacheRules.of(config, profile)
        self.cache = KVCache(config, profile, self.rules, policies)
        self.requests: dict[str, Request] = {}
        self.running: list[Request] = []
        self.waiting = WaitingQueue(config.policy)
        self.current_step = 0
        self.last_step_was_futile = False
        self._profile = profile
        self.hasher = PrefixHasher(self.rules.hash_block_size, self.rules.hash_lookahead)
        self._admission = Admission(self, config.cache_aware_admission_window if profile.admits_cached_first else 0)
        self._finished: set[str] = set()
        self._preempted: set[str] = set()
        self._num_arrived = 0
        self._cadence = PrefillCadence(config.prefill_schedule_interval if profile.holds_prefill_locally else 1)
        # Drafters without slots of their own have nothing to save by it.
        drafts = self.policies.drafts.lookahead_tokens(config) > 0 and config.model_runner == 2
        self._skips_drafts = drafts and profile.skips_unused_drafts
        self.aligns_chunks = config.recurrent_block_size > 0
        self._decode_interval = policies.drafts.decode_interval(config)

    @property
    def has_requests(self) -> bool:
        """Whether a schedule has something to do or to tell."""
        return bool(self.running or self.waiting or self._finished)

    def add_request(
        self,
        request_id: str,
        prompt: Sequence[int],
        max_tokens: int,
        stop_token_ids: Collection[int],
        options: RequestOptions = PLAIN,
    ) -> None:
        """Queue a request (see `EngineCore.add_request`)."""
        limit = self.config.max_model_len
        if request_id in self.requests:
            raise misfit(f"request id {request_id!r}", "an id that is not in use", "choose another one")
        if not 0 < len(prompt) < limit:
            raise misfit(
                f"prompt of {len(prompt)} tokens for request {request_id!r}",
                f"1 to {limit - 1} tokens",
                "shorten it or raise max_model_len",
            )
        if max_tokens < 1:
            raise misfit(f"max_tokens {max_tokens} for request {request_id!r}", "1 or more", "raise it")
        request = Request(
            request_id, list(prompt), len(prompt), max_tokens, frozenset(stop_token_ids), options, self._num_arrived
        )
        self._num_arrived += 1
        if self.config.enable_prefix_caching:
            self.hasher.extend(request)
        self.requests[request_id] = request
        self.waiting.append(request)
        self.last_step_was_futile = False

    def schedule(self) -> Step:
        """Decide the next step and advance the counters as if everything scheduled were accepted."""
        self.current_step += 1
        self.policies.at(self.current_step)
        self.cache.start_step()
        draft = StepDraft(self.config.max_num_batched_tokens, self.policies.drafts)
        hold = self._cadence.holds(self.running)
        num_preempted = len(self._preempted)
        self._schedule_running(draft, hold)
        if len(self._preempted) == num_preempted:
            self._admission.admit(draft, hold)
            if not hold:
                self._cadence.admitted(self.waiting)
        self._cadence.scheduled(bool(draft.scheduled), draft.scheduled_prefill or draft.admitted_prefill)
        copies = self.cache.take_copies()
        zero = self.cache.take_blocks_to_zero()
        self._advance(draft)
        step = Step(
            number=self.current_step,
            rows=tuple(draft.rows()),
            new=draft.admitted(self._profile.resumes_in_admission_order),
            cached=tuple(draft.cached),
            finished=tuple(sorted(self._finished)),
            preempted=tuple(sorted(self._preempted)),
            zero=zero,
            copies=copies,
            block_lists=self.cache.block_lists(),
            hashed=self.cache.pool.cached_blocks(),
            num_free_blocks=self.cache.pool.num_free_blocks,
            skip_drafts=self._skips_drafts and not draft.uses_drafts,
        )
        self.last_step_was_futile = not (
            step.rows
            or self._finished
            or self._preempted
            or any(request.next_decode_step > self.current_step for request in self.running)
        )
        self._finished = set()
        self._preempted = set()
        return step

    def _schedule_running(self, draft: StepDraft, hold: bool) -> None:
        """Give tokens to running requests in order; an exhausted pool preempts, requests that have tokens already too.

        Without priorities the last of the list goes, until the request fits or is gone itself, which ends the pass.
        """
        threshold = self.chunk_threshold()
        index = 0
        while index < len(self.running) and draft.budget > 0:
            request = self.running[index]
            index += 1
            num_tokens = 0 if hold and request.is_prefill_chunk else self._next_tokens(request, draft.budget, threshold)
            if num_tokens == 0:
                continue
            new_blocks = self.cache.allocate_slots(request, num_tokens)
            while new_blocks is None:
                victim = self.policies.preemption.victim(self.running, self.config)
                place = self.running.index(victim)
                del self.running[place]
                index -= place < index
                draft.take_back(victim)
                self._preempt(victim)
                if victim is request:
                    break
                new_blocks = self.cache.allocate_slots(request, num_tokens)
            if new_blocks is None:
                if self.config.policy == "priority" and self._profile.goes_on_after_self_preemption:
                    continue
                return
            num_drafts = 0
            if request.num_spec_tokens:
                known = request.num_tokens + request.num_output_placeholders
                beyond = request.num_computed_tokens + num_tokens - known
                num_drafts = min(max(beyond, 0), request.num_spec_tokens)
                request.num_spec_tokens = 0
            draft.add_running(request, num_tokens, num_drafts, new_blocks)

    def chunk_threshold(self) -> int:
        """The longest prefill chunk, 0 for no limit; a request that is alone may use the whole budget.

        An adaptive threshold is never below a fair share of the budget.
        """
        config, eligible = self.config, len(self.running) + len(self.waiting)
        threshold = config.long_prefill_token_threshold if eligible > 1 else 0
        if threshold and config.long_prefill_token_threshold_adaptive:
            return max(threshold, config.max_num_batched_tokens // eligible)
        return threshold

    def _next_tokens(self, request: Request, budget: int, threshold: int) -> int:
        """Tokens that a running request can compute now, 0 if it has to wait."""
        placeholders = request.num_output_placeholders
        if placeholders > 0:
            # Even with every draft in flight rejected, the steps in flight reach the cap.
            sure = request.num_computed_tokens + 2 - placeholders
            if sure >= request.num_prompt_tokens + request.max_tokens:
                return 0
        if self.current_step < request.next_decode_step:
            return 0
        wanted = request.num_tokens + request.num_spec_tokens + placeholders - request.num_computed_tokens
        if 0 < threshold < wanted:
            wanted = threshold
        room = self.config.max_model_len - request.num_computed_tokens - 1
        return self.clip_chunk(request, request.num_computed_tokens, min(wanted, budget, room))

    def clip_chunk(self, request: Request, start: int, num_tokens: int) -> int:
        """Apply the chunk policy where recurrent groups need it; never negative."""
        if self.aligns_chunks:
            num_tokens = self.policies.chunks.clip(request, start, num_tokens, self.config, self.rules)
        return max(num_tokens, 0)

    def reset_prefix_cache(self, reset_running_requests: bool) -> bool:
        """Forget every prefix (see `EngineCore.reset_prefix_cache`)."""
        while reset_running_requests and self.running:
            self._preempt(self.running.pop(), drops_output=True)
        done = self.cache.pool.reset()
        if reset_running_requests and not done:
            raise BrokenRule("blocks are held though every running request was preempted for a cache reset")
        self.last_step_was_futile = False
        return done

    def _preempt(self, request: Request, drops_output: bool = False) -> None:
        """Take a request off the ranks; it goes to the head of the queue and starts over.

        Output in flight is stale: it will be delivered, but must not touch the counters, which start at zero. A cache
        reset has it dropped instead, and the request may come back at once. What is to be dropped stays so.
        """
        request.drops_stale_output = drops_output or (
            request.drops_stale_output and request.num_stale_output_tokens > 0
        )
        self.cache.free(request)
        request.status = Status.PREEMPTED
        request.num_computed_tokens = 0
        request.num_spec_tokens = 0
        request.num_stale_output_tokens = self.policies.stale.stale_tokens(request)
        request.num_output_placeholders = 0
        request.num_preemptions += 1
        self.waiting.put_back((request,))
        self._preempted.add(request.id)

    def _advance(self, draft: StepDraft) -> None:
        num_drafts = self.policies.drafts.placeholders(self.config, len(draft.scheduled))
        for row in draft.scheduled:
            request = row.request
            request.num_computed_tokens += row.num_tokens
            request.num_in_flight_tokens += row.num_tokens
            known = request.num_tokens + request.num_output_placeholders
            request.is_prefill_chunk = request.num_computed_tokens < known
            row.samples = not request.is_prefill_chunk
            if self.config.async_scheduling and row.samples:
                request.num_output_placeholders += 1 + row.num_drafts
                request.num_spec_tokens = num_drafts
                request.next_decode_step = self.current_step + self._decode_interval

    def abort(self, request_ids: Iterable[str]) -> tuple[str, ...]:
        """Finish requests from outside, in order; returns those that were not finished yet."""
        aborted = []
        for request_id in request_ids:
            request = self.requests.get(request_id)
            if request is None:
                continue
            (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
            self.finish(request, Status.FINISHED_ABORTED)
            aborted.append(request_id)
        if aborted:
            self.last_step_was_futile = False
        return tuple(aborted)

    def finish(self, request: Request, status: Status) -> None:
        request.status = status
        self._finished.add(request.id)
        self.cache.free(request)
        del self.requests[request.id]
