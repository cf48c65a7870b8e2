"""The wire format from the engine to every rank: one immutable `Step` per call of the scheduler.

Made by `scheduler.Scheduler.schedule`; read by ranks (which replay it), by the oracle (which judges ownership
from its snapshots) and by conform (which compares it with recorded runs). Block ids are ints, 0 is the null
block; tuples of lists are per KV-cache group, in group order.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

BlockLists = tuple[tuple[int, ...], ...]


class ScheduledRow(msgspec.Struct, frozen=True, gc=False):
    """One request's share of a step.

    `num_tokens` includes `num_drafts`; `num_computed_tokens` is the count sent to the ranks before this step,
    which is optimistic by the drafts of the request's step still in flight. `is_final_or_decode` is False for
    a prefill chunk that does not reach the last known token: such a row samples nothing.
    """

    request: str
    num_tokens: int
    num_drafts: int
    num_computed_tokens: int
    is_final_or_decode: bool


class NewRequest(msgspec.Struct, frozen=True):
    """An admission: a request that the ranks must put into a slot, with its whole block table.

    Resumed requests are sent like this to either model runner (vLLM sends V1 the same content as an update).

    `num_computed_tokens` is the prefix hit; `prefill_token_ids` holds the prompt, and for a resumed request
    (one that was preempted) the outputs so far as well. `junction` is the end of a shared prefix that some
    group has not cached yet (tokens, 0 if none).
    """

    request: str
    prompt_len: int
    prefill_token_ids: tuple[int, ...]
    num_computed_tokens: int
    block_ids: BlockLists
    resumed: bool
    junction: int
    max_tokens: int


class CachedRequest(msgspec.Struct, frozen=True):
    """A request that the ranks know already: block ids to append per group, None if there are none at all."""

    request: str
    num_computed_tokens: int
    new_block_ids: BlockLists | None


class CachedBlock(msgspec.Struct, frozen=True, gc=False):
    """A block that the prefix cache can hand to another request.

    `num_tokens` is the boundary: the block serves a prefix of that many tokens. `request` computed its
    contents.
    """

    group: int
    num_tokens: int
    request: str


class Step(msgspec.Struct, frozen=True):
    """Everything that one call of the scheduler decided.

    `rows` and `cached` keep the scheduler's order (running requests, then admissions), `new` has fresh
    requests before resumed ones, or admission order (0.34). `finished` and `preempted` are sorted. `zero` are block
    ids to zero, `copies` are (source, destination) block pairs to copy before the forward. `block_lists` are the
    scheduler's own lists after this schedule (it forgets states that the ranks' append-only rows still show),
    `hashed` every block that carries a prefix hash after it, and `num_free_blocks` counts those that can be handed out.
    `skip_drafts`: no request of the step can use drafts proposed after it, so the runner proposes none (from 0.33).
    """

    number: int
    rows: tuple[ScheduledRow, ...]
    new: tuple[NewRequest, ...]
    cached: tuple[CachedRequest, ...]
    finished: tuple[str, ...]
    preempted: tuple[str, ...]
    zero: tuple[int, ...]
    copies: tuple[tuple[int, int], ...]
    block_lists: Mapping[str, BlockLists]
    hashed: Mapping[int, CachedBlock]
    num_free_blocks: int
    skip_drafts: bool = False

    @property
    def num_tokens(self) -> int:
        """Tokens over all rows; 0 for an empty step, which is queued and replayed like any other."""
        return sum(row.num_tokens for row in self.rows)
