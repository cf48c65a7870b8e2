"""What a serving engine is configured with, as far as its schedule depends on it.

Made by whoever decides a run (a schedule, a recorded trace, a test); read by the scheduler and the KV-cache
code. Field names follow vLLM's options. Every rejected value is a ValueError of one line: value, expectation,
remedy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

GroupKind = Literal["attention", "recurrent"]
SchedulingPolicy = Literal["fcfs", "priority"]
Drafter = Literal["mtp", "ngram"]
DraftRanges = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One KV-cache group: layers that share a block table.

    `block_size` is in tokens. `draft` marks the group that holds the drafter's layers (MTP). Groups of the
    same kind, block size, `window` and `spec` (a label for everything else, such as state shapes) are looked up in the
    prefix cache as one. `window`: tokens that a position of an attention group reads, itself included; 0 is all.
    """

    kind: GroupKind
    block_size: int
    draft: bool = False
    spec: int = 0
    window: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("attention", "recurrent"):
            raise ValueError(f"group kind {self.kind!r}: expected 'attention' or 'recurrent'; name one of them")
        _positive("block_size", self.block_size, "give the group's block size in tokens")
        if self.window < 0 or (self.window and self.kind == "recurrent"):
            raise misfit(f"window {self.window} of a group of kind {self.kind}", "0, or tokens of attention", "use 0")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The options of one engine. Sizes are in tokens or blocks as named.

    `prefix_match_unit` is the hash granularity (None: the greatest common divisor of the groups' block
    sizes); `retention_interval` says which recurrent states keep a prefix hash (0: replay boundaries and
    shared-prefix junctions only; None: every boundary; n: one per n tokens); `watermark` is the fraction of
    the pool to keep free when a waiting request is admitted beside running ones. `drop_draft_block` and
    `lookahead_hashes` switch off the two ways in which MTP keeps a hit away from draft KV that it cannot
    vouch for. `prefill_checkpoint_alignment` says that a prefill can save a state inside its last chunk, at a
    multiple of that many tokens from the chunk's start (vLLM's num_prefill_checkpoint_blocks is 1 then); None: it
    cannot. `max_num_active_seqs` admits fewer requests than `max_num_seqs` (None: as many);
    `long_prefill_token_threshold_adaptive` raises the threshold to a fair share of the budget. With
    `policy` "priority" requests of a smaller priority go first, arrival decides ties.
    An "ngram" `drafter` looks drafts up in the request's tokens: it has no layers, so no slots and no KV of its
    own. `num_speculative_tokens_per_batch_size` has (first, last, drafts) for ranges of rows in a step, whose
    requests then draft that many. `prefill_schedule_interval` lets decodes run alone for that many steps after one
    with prefill (from 0.33 on). Among the first `cache_aware_admission_window` waiting requests (from 0.34 on, "fcfs"
    only, 0: off) those with the longest prefix in the cache are admitted first, as soon as
    `cache_aware_admission_threshold` of the pool is in use.
    `model_runner` 1 has no deferred ring; with pipeline parallelism it needs `async_scheduling=False`.
    """

    groups: tuple[GroupConfig, ...]
    num_blocks: int
    pipeline_parallel_size: int = 1
    num_speculative_tokens: int = 0
    drafter: Drafter = "mtp"
    num_speculative_tokens_per_batch_size: DraftRanges = ()
    max_num_seqs: int = 4
    max_num_batched_tokens: int = 64
    max_model_len: int = 256
    prefix_match_unit: int | None = None
    retention_interval: int | None = 0
    policy: SchedulingPolicy = "fcfs"
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    max_num_active_seqs: int | None = None
    prefill_schedule_interval: int = 1
    cache_aware_admission_window: int = 0
    cache_aware_admission_threshold: float = 0.5
    async_scheduling: bool = True
    model_runner: Literal[1, 2] = 2
    enable_prefix_caching: bool = True
    reserve_full_isl: bool = True
    watermark: float = 0.0
    shared_prefix_checkpoint: bool = False
    prefill_checkpoint_alignment: int | None = None
    drop_draft_block: bool = True
    lookahead_hashes: bool = True

    def __post_init__(self) -> None:
        self._check_counts()
        self._check_groups()
        self._check_cache()
        if self.model_runner not in (1, 2):
            raise misfit(f"model_runner {self.model_runner}", "1 or 2", "use 2 unless V1 is under test")
        if self.model_runner == 1 and self.async_scheduling and self.pipeline_parallel_size > 1:
            raise misfit(
                f"model_runner 1 with pipeline_parallel_size {self.pipeline_parallel_size}",
                "synchronous scheduling",
                "set async_scheduling=False or model_runner=2",
            )

    def _check_counts(self) -> None:
        for name in ("pipeline_parallel_size", "max_num_seqs", "max_num_batched_tokens", "num_blocks"):
            _positive(name, getattr(self, name), "raise it")
        _positive("prefill_schedule_interval", self.prefill_schedule_interval, "use 1 to switch it off")
        for name in ("num_speculative_tokens", "long_prefill_token_threshold", "cache_aware_admission_window"):
            if getattr(self, name) < 0:
                raise misfit(f"{name} {getattr(self, name)}", "0 or more", "use 0 to switch it off")
        active = self.max_num_active_seqs
        if active is not None and not 1 <= active <= self.max_num_seqs:
            most = f"1 to max_num_seqs {self.max_num_seqs}"
            raise misfit(f"max_num_active_seqs {active}", most, "use None for as many")
        if self.max_model_len < 2:
            raise misfit(f"max_model_len {self.max_model_len}", "2 or more", "a prompt and an output must fit")
        width = 1 + self.num_speculative_tokens
        if self.max_num_batched_tokens < width:
            raise misfit(
                f"max_num_batched_tokens {self.max_num_batched_tokens}",
                f"at least {width}, a decode with its drafts",
                "raise it or lower num_speculative_tokens",
            )
        if self.policy not in ("fcfs", "priority"):
            raise misfit(f"policy {self.policy!r}", "'fcfs' or 'priority'", "name one of them")
        if self.drafter not in ("mtp", "ngram"):
            raise misfit(f"drafter {self.drafter!r}", "'mtp' or 'ngram'", "name one of them")
        check_draft_ranges(self.num_speculative_tokens_per_batch_size)
        if not 0.0 <= self.watermark < 1.0:
            raise misfit(f"watermark {self.watermark}", "a fraction in [0, 1)", "use 0 to switch it off")
        share = self.cache_aware_admission_threshold
        if not 0.0 <= share <= 1.0:
            raise misfit(f"cache_aware_admission_threshold {share}", "a fraction in [0, 1]", "use 0.5, the default")

    def _check_groups(self) -> None:
        if not self.groups:
            raise misfit("groups ()", "at least one KV-cache group", "add a GroupConfig")
        sizes = {group.block_size for group in self.groups if group.kind == "recurrent"}
        if len(sizes) > 1:
            raise misfit(
                f"recurrent block sizes {sorted(sizes)}",
                "one size for all recurrent groups",
                "make them equal",
            )
        needed = 1 + self.min_blocks_per_request
        if self.num_blocks < needed:
            raise misfit(
                f"num_blocks {self.num_blocks}",
                f"at least {needed}: the null block and one request's first blocks in every group",
                "raise num_blocks",
            )

    def _check_cache(self) -> None:
        unit, interval = self.prefix_match_unit, self.retention_interval
        sizes = [group.block_size for group in self.groups]
        if unit is not None:
            _positive("prefix_match_unit", unit, "use None for the default")
            if any(size % unit for size in sizes) or (len(sizes) == 1 and unit != sizes[0]):
                raise misfit(
                    f"prefix_match_unit {unit} with block sizes {sizes}",
                    "a common divisor (a single group's own block size)",
                    "use None for the default",
                )
        if self.prefill_checkpoint_alignment is not None:
            _positive("prefill_checkpoint_alignment", self.prefill_checkpoint_alignment, "use None to switch it off")
        if interval is not None and (interval < 0 or interval % self.scheduler_block_size):
            raise misfit(
                f"retention_interval {interval}",
                f"None, 0 or a multiple of the scheduler's block size {self.scheduler_block_size}",
                "round it",
            )

    @property
    def scheduler_block_size(self) -> int:
        """Least common multiple of the groups' block sizes, in tokens."""
        return math.lcm(*(group.block_size for group in self.groups))

    @property
    def hash_block_size(self) -> int:
        """Tokens per prefix hash."""
        if not self.enable_prefix_caching:
            return self.scheduler_block_size
        return self.prefix_match_unit or math.gcd(*(group.block_size for group in self.groups))

    @property
    def recurrent_block_size(self) -> int:
        """Tokens per recurrent block, 0 without recurrent groups."""
        return next((group.block_size for group in self.groups if group.kind == "recurrent"), 0)

    @property
    def max_inflight_steps(self) -> int:
        """Depth of the engine's FIFO: how many steps may be scheduled and not yet processed."""
        if not self.async_scheduling:
            return self.pipeline_parallel_size
        return self.pipeline_parallel_size + 1

    @property
    def min_blocks_per_request(self) -> int:
        """Blocks that the first chunk of any request takes."""
        states = 1 + self.num_speculative_tokens
        return sum(states if group.kind == "recurrent" else 1 for group in self.groups)

def check_draft_ranges(ranges: DraftRanges) -> None:
    """ValueError unless the ranges of rows begin at 1, follow each other and do not overlap."""
    last = 0
    for first, end, drafts in ranges:
        fits = (first == 1) if last == 0 else (first > last)
        if not fits or end < first or drafts < 0:
            raise misfit(
                f"num_speculative_tokens_per_batch_size {[list(entry) for entry in ranges]}",
                "(first, last, drafts) of rising ranges from 1 on",
                "order them, or leave them out",
            )
        last = end


def _positive(name: str, value: int, remedy: str) -> None:
    if value < 1:
        raise misfit(f"{name} {value}", "1 or more", remedy)


def misfit(value: str, expected: str, remedy: str) -> ValueError:
    """The error for a value that the engine does not take, in one line."""
    return ValueError(f"{value}: expected {expected}; {remedy}")
