"""Admission: the scheduler's pass over the waiting queue, from prefix hit to first chunk.

Called by `Scheduler.schedule` after the running requests, unless one of them was preempted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from stalerow.simulator.engine.cache import KVCache
from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.draft_step import StepDraft
from stalerow.simulator.engine.hits import Hit
from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.engine.request import Request, Status
from stalerow.simulator.engine.waiting import WaitingQueue
from stalerow.simulator.errors import BrokenRule


class Admitting(Protocol):
    """What admission works on: the scheduler's queue, running list and cache."""

    config: EngineConfig
    policies: Policies
    cache: KVCache
    running: list[Request]
    waiting: WaitingQueue

    def chunk_threshold(self) -> int:
        """The longest prefill chunk in this step, 0 for no limit."""

    def clip_chunk(self, request: Request, start: int, num_tokens: int) -> int:
        """`num_tokens` from `start` on, cut where the engine's rules ask for it."""


class Admission:
    """Admits waiting requests in order while tokens, slots and blocks last."""

    def __init__(self, scheduler: Admitting, window: int = 0) -> None:
        self._scheduler = scheduler
        self._window = window if scheduler.config.policy == "fcfs" and scheduler.config.enable_prefix_caching else 0

    def admit(self, draft: StepDraft, hold: bool) -> None:
        """Move requests from the queue to the running list; the first that does not fit ends the pass.

        A preempted request with output in flight is passed over: resuming it now could sample a position
        twice. With `hold` nobody with more than one token left is admitted.
        """
        scheduler = self._scheduler
        queue = scheduler.waiting
        if self._window and not hold:
            self._cached_first()
        skipped: list[Request] = []
        threshold = scheduler.chunk_threshold()
        most = scheduler.config.max_num_active_seqs or scheduler.config.max_num_seqs
        while queue and draft.budget > 0 and len(scheduler.running) < most:
            request = queue.first
            if not scheduler.policies.stale.may_resume(request):
                request.was_skipped = True
                skipped.append(queue.pop())
            elif not self._admit(request, draft, threshold, hold):
                break
        queue.put_back(skipped)

    def _cached_first(self) -> None:
        """Let requests with more of their prefix cached go before others that merely wait, within the window.

        Requests that have run keep their places, and nobody moves past them.
        """
        scheduler = self._scheduler
        if scheduler.cache.pool.usage < scheduler.config.cache_aware_admission_threshold:
            return
        head = list(islice(scheduler.waiting, self._window))
        places = [i for i, r in enumerate(head) if r.status is Status.WAITING and not r.num_computed_tokens]
        if len(places) < 2:
            return
        cached = {i: scheduler.cache.longest_hit(head[i]).num_tokens for i in places}
        order = scheduler.policies.hits.admission_order(cached)
        scheduler.waiting.reorder(_placed(head, places, order))

    def _admit(self, request: Request, draft: StepDraft, threshold: int, hold: bool) -> bool:
        scheduler = self._scheduler
        hit = scheduler.cache.longest_hit(request)
        request.shared_prefix_boundary = hit.junction
        prefills = hit.num_tokens < request.num_tokens - 1
        if hold and prefills:
            return False
        num_tokens, num_drafts = self._first_chunk(request, hit, draft, threshold)
        if num_tokens == 0:
            return False
        beside_others = bool(scheduler.running)
        if scheduler.cache.allocate_slots(request, num_tokens, hit, beside_others) is None:
            return False
        scheduler.waiting.pop()
        scheduler.running.append(request)
        request.status = Status.RUNNING
        request.was_skipped = False
        draft.admitted_prefill |= prefills
        request.num_computed_tokens = hit.num_tokens
        draft.add_admission(request, num_tokens, num_drafts, scheduler.cache.block_ids(request))
        return True

    def _first_chunk(self, request: Request, hit: Hit, draft: StepDraft, threshold: int) -> tuple[int, int]:
        """Tokens and placeholder drafts of the first chunk, (0, 0) if it has to wait."""
        scheduler = self._scheduler
        start = hit.num_tokens
        num_tokens = request.num_tokens - start
        padding = 0
        if num_tokens == 1 and self._may_pad(start, draft):
            padding = scheduler.config.num_speculative_tokens
            if 1 + padding > draft.budget:
                # Rather wait than break the uniform width of a decode batch.
                return 0, 0
            num_tokens += padding
        cut = 0 < threshold < num_tokens
        if cut:
            num_tokens = threshold
        num_tokens = scheduler.clip_chunk(request, start, min(num_tokens, draft.budget))
        if padding and num_tokens and num_tokens != 1 + padding:
            if cut and scheduler.policies.drafts.keeps_cut_padding():
                raise BrokenRule(f"{request.id} is padded to {1 + padding} tokens and given {num_tokens}")
            return 1, 0
        return num_tokens, padding

    def _may_pad(self, start: int, draft: StepDraft) -> bool:
        """Whether a request with one token left joins as a decode with placeholder drafts.

        Only where the batch is otherwise made of decodes, and where the sampled tokens still fit.
        """
        scheduler = self._scheduler
        num_drafts = scheduler.config.num_speculative_tokens
        return (
            num_drafts > 0
            and not scheduler.config.num_speculative_tokens_per_batch_size
            and not draft.scheduled_prefill
            and (bool(draft.cached) or start > 0)
            and start + 1 + num_drafts + 1 <= scheduler.config.max_model_len
        )


def _placed(head: Sequence[Request], places: Sequence[int], order: Sequence[int]) -> list[Request]:
    """`head` with the requests at `places` in the given order of places."""
    made = list(head)
    for place, source in zip(places, order):
        made[place] = head[source]
    return made
