"""A request as the scheduler sees it: its tokens and the counters that decide what comes next.

Made by `Scheduler.add_request`, changed by the scheduler only; conform and the oracle read it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import msgspec


class RequestOptions(msgspec.Struct, frozen=True):
    """What a client may ask for beside tokens.

    cache_salt: requests with different salts share no prefix, whatever their tokens; stands for everything that enters
    the hash of a first block (salt, LoRA adapter). skip_reading_prefix_cache: start from the first token though the
    prefix may be cached. priority: the smaller, the earlier (only where the engine's policy is "priority").
    """

    cache_salt: str = ""
    skip_reading_prefix_cache: bool = False
    priority: int = 0


PLAIN = RequestOptions()


class Status(enum.Enum):
    """Where a request stands; values are vLLM's names."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PREEMPTED = "PREEMPTED"
    FINISHED_STOPPED = "FINISHED_STOPPED"
    FINISHED_LENGTH_CAPPED = "FINISHED_LENGTH_CAPPED"
    FINISHED_ABORTED = "FINISHED_ABORTED"


@dataclass(slots=True, eq=False)
class Request:
    """Counters of one request.

    `num_computed_tokens` counts scheduled tokens optimistically, drafts included, until their output is
    processed; `num_output_placeholders` are the outputs expected from steps in flight (asynchronous
    scheduling only); `num_in_flight_tokens` the scheduled tokens not processed yet, `num_stale_output_tokens`
    those of them that were scheduled before a preemption, whose output is delivered or, with
    `drops_stale_output`, dropped. `was_skipped` says that an admission pass went by. `num_spec_tokens` drafts wait
    to be scheduled. `arrival` numbers requests as they came. `block_hashes` are prefix identities, one per hash block
    (see `hashing`).
    """

    id: str
    token_ids: list[int]
    num_prompt_tokens: int
    max_tokens: int
    stop_token_ids: frozenset[int] = frozenset()
    options: RequestOptions = PLAIN
    arrival: int = 0
    status: Status = Status.WAITING
    num_computed_tokens: int = 0
    num_output_placeholders: int = 0
    num_in_flight_tokens: int = 0
    num_stale_output_tokens: int = 0
    num_spec_tokens: int = 0
    next_decode_step: int = 0
    is_prefill_chunk: bool = False
    shared_prefix_boundary: int = 0
    num_preemptions: int = 0
    drops_stale_output: bool = False
    was_skipped: bool = False
    block_hashes: list[int] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, int]:
        """Place among requests of a priority engine, the smallest first."""
        return self.options.priority, self.arrival

    @property
    def num_tokens(self) -> int:
        """Known tokens: prompt and outputs delivered so far."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Outputs delivered so far."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def prefill_end(self) -> int:
        """Where prefill ends: the prompt, or all but the last known token when outputs are replayed."""
        return max(self.num_prompt_tokens, len(self.token_ids) - 1)
