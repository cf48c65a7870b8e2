"""A step under construction: what the scheduler has granted so far and what is left of the token budget.

Filled by the scheduler's running and admission passes, then turned into the wire format.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stalerow.simulator.engine.policies import DraftPolicy
from stalerow.simulator.engine.request import Request
from stalerow.simulator.engine.step import BlockLists, CachedRequest, NewRequest, ScheduledRow


class Scheduled(msgspec.Struct, eq=False):
    """One row being built; `num_computed_tokens` is the count before the step."""

    request: Request
    num_tokens: int
    num_drafts: int
    num_computed_tokens: int
    samples: bool = False


class StepDraft:
    """Rows in scheduling order, admissions and appended blocks; `budget` is in tokens.

    `uses_drafts`: some request that was granted tokens can use drafts proposed after the step, were it preempted since.
    """

    __slots__ = (
        "_policy",
        "admitted_prefill",
        "budget",
        "cached",
        "new",
        "scheduled",
        "scheduled_prefill",
        "uses_drafts",
    )

    def __init__(self, budget: int, policy: DraftPolicy) -> None:
        self.budget = budget
        self._policy = policy
        self.uses_drafts = False
        self.scheduled: list[Scheduled] = []
        self.new: list[NewRequest] = []
        self.cached: list[CachedRequest] = []
        self.scheduled_prefill = False
        self.admitted_prefill = False

    def add_running(self, request: Request, num_tokens: int, num_drafts: int, new_blocks: BlockLists) -> None:
        """Grant tokens to a request that the ranks know."""
        self.scheduled_prefill |= request.is_prefill_chunk
        blocks = new_blocks if any(new_blocks) else None
        self.cached.append(CachedRequest(request.id, request.num_computed_tokens, blocks))
        self._grant(request, num_tokens, num_drafts)

    def add_admission(self, request: Request, num_tokens: int, num_drafts: int, blocks: BlockLists) -> None:
        """Grant tokens to a request that the ranks have to take in, with its whole block lists."""
        self.new.append(
            NewRequest(
                request=request.id,
                prompt_len=request.num_prompt_tokens,
                prefill_token_ids=tuple(request.token_ids),
                num_computed_tokens=request.num_computed_tokens,
                block_ids=blocks,
                resumed=request.num_preemptions > 0,
                junction=request.shared_prefix_boundary,
                max_tokens=request.max_tokens,
            )
        )
        self._grant(request, num_tokens, num_drafts)

    def take_back(self, request: Request) -> bool:
        """Undo a grant to a request that was preempted later in the step; whether there was one."""
        for index, row in enumerate(self.scheduled):
            if row.request is request:
                self.budget += row.num_tokens
                del self.scheduled[index]
                self.cached = [known for known in self.cached if known.request != request.id]
                return True
        return False

    def _grant(self, request: Request, num_tokens: int, num_drafts: int) -> None:
        self.scheduled.append(Scheduled(request, num_tokens, num_drafts, request.num_computed_tokens))
        self.budget -= num_tokens
        self.uses_drafts = self.uses_drafts or not self._policy.unused(request, num_tokens)

    def admitted(self, in_admission_order: bool) -> tuple[NewRequest, ...]:
        """The admissions in the order in which ranks take them: as admitted, or resumed ones last."""
        return tuple(self.new if in_admission_order else sorted(self.new, key=lambda new: new.resumed))

    def rows(self) -> Iterator[ScheduledRow]:
        """The rows for the wire, once the scheduler has decided which of them sample."""
        for row in self.scheduled:
            yield ScheduledRow(row.request.id, row.num_tokens, row.num_drafts, row.num_computed_tokens, row.samples)
