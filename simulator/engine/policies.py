"""The decisions of the engine that a fault may want to replace, one small object each.

The scheduler and the KV managers ask these objects instead of deciding themselves; each knows the number of the step
being scheduled, or last scheduled, as `step` (0 before the first). The defaults are the
correct system (vLLM 0.32 and 0.33); a fault is a subclass that overrides one method, passed in a `Policies`
value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from stalerow.simulator.engine.reuse import Decision, ReusePolicy

if TYPE_CHECKING:
    from stalerow.simulator.engine.block_pool import BlockPool
    from stalerow.simulator.engine.config import EngineConfig
    from stalerow.simulator.engine.request import Request
    from stalerow.simulator.engine.rules import CacheRules


class FreePolicy(Decision):
    """When blocks go back to the pool, and which recurrent states are no longer needed."""

    def retired_columns(self, num_settled_tokens: int, block_size: int) -> int:
        """Leading columns of a recurrent group whose states are given up: all below the last settled token's."""
        return max(num_settled_tokens - 1, 0) // block_size

    def release(self, pool: BlockPool, blocks: Iterable[int], request: Request) -> None:
        """Give up the blocks of a finished, aborted or preempted request: at once, steps in flight or not.

        Called once per group, with the last column first. What protects the blocks is stream order on every
        rank.
        """
        pool.release(blocks)

    def settled_tokens(self, num_computed_tokens: int, request: Request) -> int:
        """Computed tokens whose output has been processed: states below them can be retired.

        Tokens in flight do not count, because a rejected draft rolls the optimistic count back.
        """
        return max(0, num_computed_tokens - request.num_in_flight_tokens)


class ChunkPolicy(Decision):
    """Where a prefill chunk of a model with recurrent groups must end."""

    def block_size(self, config: EngineConfig) -> int:
        """The grid that chunk ends are clipped to: the recurrent block size, not the scheduler's."""
        return config.recurrent_block_size

    def clip(self, request: Request, start: int, num_tokens: int, config: EngineConfig, rules: CacheRules) -> int:
        """Tokens of a chunk from `start`, clipped so that states land on cacheable boundaries; 0 if none
        fits.

        A state is written at the end of a chunk, so chunks end on multiples of the block size until the last
        one. A chunk never runs past the last cacheable boundary, a boundary it starts short of, the prompt's
        last partial hash boundary, or a shared-prefix junction (vLLM, _mamba_block_aligned_split). Of these only
        the junction is left where the prompt's last chunk saves the reusable state on its way.
        """
        prefill_end = request.prefill_end
        if start >= prefill_end:
            return num_tokens
        size = self.block_size(config)
        end = start + num_tokens
        if end < prefill_end:
            end = self._align(start, end, size, config)
        stops = self._stops(request, start, end, size, config, rules)
        return max(min((stop for stop in stops if start < stop < end), default=end) - start, 0)

    def _align(self, start: int, end: int, size: int, config: EngineConfig) -> int:
        """Floor `end` to the grid, unless a block is wider than any chunk may be."""
        limit = config.max_num_batched_tokens
        if config.long_prefill_token_threshold > 0:
            limit = min(limit, config.long_prefill_token_threshold)
        aligned = end // size * size
        return aligned if aligned > start or size <= limit else end

    def _stops(
        self, request: Request, start: int, end: int, size: int, config: EngineConfig, rules: CacheRules
    ) -> list[int]:
        stops = []
        if not self.saves_inside(request, start, end, rules):
            last_cacheable = rules.checkpoint_position(request.num_tokens, size)
            stops.append(last_cacheable)
            if start % size:
                stops.append((start // size + 1) * size)
            if rules.partial_hits:
                tail = rules.checkpoint_position(request.num_prompt_tokens, rules.hash_block_size)
                if last_cacheable < tail < request.num_prompt_tokens:
                    stops.append(tail)
        junction = request.shared_prefix_boundary
        if start < junction < end:
            inside_prompt = junction <= request.num_prompt_tokens
            exact = rules.shared_prefix_checkpoint and inside_prompt
            stops.append(junction if exact else start + (junction - start) // size * size)
        return stops

    def saves_inside(self, request: Request, start: int, end: int, rules: CacheRules) -> bool:
        """Whether a chunk that reaches the end of the prefill saves the state that a replay resumes from on its way."""
        prefill_end = request.prefill_end
        return end >= prefill_end and rules.checkpoint_inside(start, end, prefill_end) > 0


class HitPolicy(Decision):
    """How much of a cached prefix a request may start with."""

    def max_tokens(self, request: Request) -> int:
        """The longest hit: the last known token is always left to compute; 0 if the request skips cache reads."""
        return 0 if request.options.skip_reading_prefix_cache else request.num_tokens - 1

    def too_fresh(self, prefix: int | None, cached_this_step: Collection[int | None]) -> bool:
        """Whether a recurrent state may not be hit yet: one cached in this very schedule is not computed."""
        return prefix in cached_this_step

    def admission_order(self, cached: Mapping[int, int]) -> list[int]:
        """Places in the queue, those with most tokens cached (`cached`, by place) first, arrival deciding ties."""
        return sorted(cached, key=lambda place: (-cached[place], place))

    def agreed(self, candidate: int, found: int, recurrent: bool) -> int:
        """Tokens that all groups looked up so far can serve: `found` is what the last ones have of `candidate`."""
        return found


class PreemptionPolicy(Decision):
    """Who goes when the pool runs dry."""

    def victim(self, running: Sequence[Request], config: EngineConfig) -> Request:
        """The last of the running list; under "priority" the least urgent, of equals the last to arrive."""
        return max(running, key=lambda r: r.rank) if config.policy == "priority" else running[-1]


class StalePolicy(Decision):
    """Which output of a preempted request is stale, and when the request may come back."""

    def may_resume(self, request: Request) -> bool:
        """Whether a request may be admitted: not before stale output that will be delivered has come in, since it would
        sample positions twice."""
        return not request.num_stale_output_tokens or request.drops_stale_output

    def stale_tokens(self, request: Request) -> int:
        """Tokens in flight at a preemption: their output is delivered, but must not touch the reset counters."""
        return request.num_in_flight_tokens


class HashPolicy(Decision):
    """Which prefix a full block is registered under, and of how many tokens blocks may be registered."""

    def certain_tokens(self, num_scheduled: int, num_known: int) -> int:
        """Tokens that a schedule may hash: drafts can be rejected, so only known ones."""
        return min(num_scheduled, num_known)

    def boundary(self, column: int, block_size: int) -> int:
        """Tokens of the prefix that the block in a column serves."""
        return (column + 1) * block_size


class RetentionPolicy(Decision):
    """Which recurrent states keep a prefix hash."""

    def replay_boundaries(self, num_prompt_tokens: int, rules: CacheRules) -> tuple[int, ...]:
        """Token positions at which a later request that replays the prompt can resume.

        Without a dropped draft block there is one, the last token but one; with it, a resend and a longer
        sibling reach different blocks when the prompt ends on a boundary.
        """
        if not rules.drop_groups:
            return (num_prompt_tokens - 1,)
        size = rules.scheduler_block_size
        resend = max((num_prompt_tokens - 1) // size * size - size, 0)
        extension = max(num_prompt_tokens // size * size - size, 0)
        return (resend,) if resend == extension else (resend, extension)

    def keep(
        self,
        start: int,
        end: int,
        block_size: int,
        interval: int | None,
        boundaries: Iterable[int],
        alignment: int,
    ) -> list[bool] | None:
        """For blocks `start..end-1`, whether the state keeps a hash; None: all do.

        Block i holds the state after (i + 1) * block_size tokens. Interval None keeps every state, n one per
        n tokens, 0 none; the boundaries (rounded down to the hit alignment) are kept in any case.
        """
        if interval is None:
            return None
        kept = [False] * (end - start)
        if interval:
            stride = interval // block_size
            if stride <= 1:
                return None
            first = (start + stride) // stride * stride - 1
            for block in range(first, end, stride):
                kept[block - start] = True
        for boundary in boundaries:
            block = boundary // alignment * alignment // block_size - 1
            if start <= block < end:
                kept[block - start] = True
        return kept


class ZeroingPolicy(Decision):
    """Which newly allocated blocks the ranks zero."""

    def blocks_to_zero(self, attention: Sequence[int], recurrent: Sequence[int]) -> Sequence[int]:
        """Block ids to zero in a step, out of those newly allocated, in allocation order per kind.

        Attention blocks only: a recurrent state is written before it is read. The private copy of a shared
        attention tail counts as new; its copy comes after the zeroing.
        """
        return attention


class DraftPolicy(Decision):
    """How many drafts a step carries and what room they need."""

    def placeholders(self, config: EngineConfig, num_rows: int) -> int:
        """Drafts that the ranks will have for the next decode of the requests of a step of `num_rows` rows.

        Rows between or after the configured ranges take the drafts of the range before.
        """
        drafts = config.num_speculative_tokens
        for first, _, count in config.num_speculative_tokens_per_batch_size:
            if first > num_rows:
                break
            drafts = min(config.num_speculative_tokens, count)
        return drafts

    def keeps_cut_padding(self) -> bool:
        """Whether an admission padded to a decode's width stays padded though the chunk threshold has cut it: the
        engine's assertion fails then, as that of models without recurrent groups does."""
        return False

    def unused(self, request: Request, num_tokens: int) -> bool:
        """Whether drafts proposed after a step of `num_tokens` tokens are sure to go unused.

        It samples nothing, or reaches `max_tokens` even if all drafts in flight are rejected. Asked before the counters
        advance.
        """
        if request.num_computed_tokens + num_tokens < request.num_tokens:
            return True
        certain = request.num_output_tokens + 1 + (request.num_output_placeholders > 0)
        return certain >= request.max_tokens

    def lookahead_tokens(self, config: EngineConfig) -> int:
        """Attention slots to reserve past a step's tokens, for the KV that the drafter's own layers write."""
        return config.num_speculative_tokens if config.drafter == "mtp" else 0

    def speculative_blocks(self, config: EngineConfig) -> int:
        """Columns after a recurrent group's running column, one per draft."""
        return config.num_speculative_tokens

    def recurrent_tokens(self, num_tokens: int, num_tokens_with_lookahead: int) -> int:
        """Tokens that decide a recurrent group's running column: the target model's only.

        Lookahead would move the column as soon as a chunk ends on a boundary.
        """
        return num_tokens

    def relocated(self, length: int, running: int, num_speculative_blocks: int) -> range:
        """Columns whose unused speculative blocks move behind a new running column, of a list of `length` columns."""
        return range(max(length - num_speculative_blocks, 0), min(length, running))

    def decode_interval(self, config: EngineConfig) -> int:
        """Steps between two decodes of a request, so that `P` batches alternate (MRV2, asynchronous)."""
        asynchronous = config.async_scheduling and config.model_runner == 2
        return config.pipeline_parallel_size if asynchronous else 0


@dataclass(frozen=True, slots=True)
class Policies:
    """One object per replaceable decision; the default is the correct system."""

    reuse: ReusePolicy = field(default_factory=ReusePolicy)
    frees: FreePolicy = field(default_factory=FreePolicy)
    chunks: ChunkPolicy = field(default_factory=ChunkPolicy)
    hits: HitPolicy = field(default_factory=HitPolicy)
    preemption: PreemptionPolicy = field(default_factory=PreemptionPolicy)
    stale: StalePolicy = field(default_factory=StalePolicy)
    hashes: HashPolicy = field(default_factory=HashPolicy)
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    zeroing: ZeroingPolicy = field(default_factory=ZeroingPolicy)
    drafts: DraftPolicy = field(default_factory=DraftPolicy)

    def at(self, step: int) -> None:
        """Step number `step` is about to be scheduled."""
        for policy in (getattr(self, f.name) for f in fields(self)):
            policy.step = step
