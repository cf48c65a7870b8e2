"""A `Schedule`: the one immutable value that decides a whole run.

It holds the pipeline, the memory layout, the scheduler's limits, the requests with the acceptance of their drafts, the
aborts and the order of events. `generate` makes one from choices, `file` reads one from a file, `run` consumes it.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from stalerow.kernels.base.layout import Layout
from stalerow.simulator.engine.config import Drafter, DraftRanges, SchedulingPolicy, check_draft_ranges
from stalerow.simulator.engine.profiles import profile as find_profile
from stalerow.simulator.engine.profiles import profile_names
from stalerow.simulator.engine.request import RequestOptions
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import MAX_PP, Draw, Runner
from stalerow.simulator.schedule.order import Order

FORMAT = 2
PROFILES = profile_names()
WITH_RUNNER_V1 = tuple(name for name in PROFILES if find_profile(name).has_runner_v1)


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The engine's shape: ranks, drafts per decode step, scheduling mode and model runner.

    drafts_per_batch_size: (first, last, drafts) for ranges of rows in a step, whose requests then draft that many (the
    engine's num_speculative_tokens_per_batch_size); none: `drafts` always. drafter: see `EngineConfig`.
    """

    pp: int = 2
    drafts: int = 1
    async_scheduling: bool = True
    runner: Runner = "v2"
    profile: str = "0.32"
    drafter: Drafter = "mtp"
    drafts_per_batch_size: DraftRanges = ()


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scheduler limits, under the engine's names. Sizes in tokens unless said otherwise.

    retention_interval: which recurrent boundary states keep their hash (0: replay boundary and junctions; None: every
    boundary). graph_sizes: batch sizes (rows) with a captured decode graph; a uniform decode batch is padded up to one.
    staging_depth: buffers of a host-shared staging pool; None means one per step that may be in flight.
    long_prefill_token_threshold: the longest prefill chunk beside other requests, 0 for no limit. reserve_full_isl: a
    request is admitted only if its whole prompt fits the pool.
    long_prefill_token_threshold_adaptive: the threshold is never below a fair share of the budget. max_num_active_seqs:
    requests that may run at a time, None for max_num_seqs, which sizes the ranks. watermark: fraction of the pool to
    keep free when a request is admitted beside running ones. shared_prefix_checkpoint, drop_draft_block,
    lookahead_hashes, policy, prefill_schedule_interval, cache_aware_admission_*: see `EngineConfig`.
    """

    max_num_seqs: int = 4
    max_num_batched_tokens: int = 64
    max_model_len: int = 128
    retention_interval: int | None = 0
    prefix_match_unit: int | None = None
    prefix_caching: bool = True
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    max_num_active_seqs: int | None = None
    prefill_schedule_interval: int = 1
    cache_aware_admission_window: int = 0
    cache_aware_admission_threshold: float = 0.5
    reserve_full_isl: bool = True
    watermark: float = 0.0
    shared_prefix_checkpoint: bool = False
    drop_draft_block: bool = True
    lookahead_hashes: bool = True
    policy: SchedulingPolicy = "fcfs"
    graph_sizes: tuple[int, ...] = ()
    staging_depth: int | None = None
    max_steps: int = 400


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request. Its first `share[1]` prompt tokens come from the token stream `share[0]`, the rest from `stream`.

    arrival: the engine iteration before whose scheduling it is added (from 1). accepted: drafts accepted in its first,
    second, ... verification step, repeated from the start when they run out. stop: the output (from 1) whose token is a
    stop token of this request, 0 for none; an equal token stops it earlier. cache_salt, skip_reading_prefix_cache,
    priority: see `RequestOptions`; the states of requests with different salts differ, as with different LoRA adapters.
    """

    id: str
    arrival: int = 1
    prompt_len: int
    max_tokens: int
    stream: int
    share: tuple[int, int] | None = None
    accepted: tuple[int, ...] = (0,)
    stop: int = 0
    cache_salt: str = ""
    skip_reading_prefix_cache: bool = False
    priority: int = 0

    @property
    def options(self) -> RequestOptions:
        return RequestOptions(self.cache_salt, self.skip_reading_prefix_cache, self.priority)


class Abort(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`request` is aborted right before schedule number `step`, or before the output processed after it."""

    request: str
    step: int
    phase: Literal["pre_schedule", "pre_update"] = "pre_schedule"


class Reset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prefix cache is reset right before schedule number `step`.

    Without `running` it is only if no request runs; with it running requests are preempted first, and their output in
    flight is dropped.
    """

    step: int
    running: bool = True


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides a run. `draw` only remembers how a generated schedule was made."""

    format: int = FORMAT
    draw: Draw | None = None
    pipeline: Pipeline
    layout: Layout
    limits: Limits
    requests: tuple[Request, ...]
    aborts: tuple[Abort, ...] = ()
    resets: tuple[Reset, ...] = ()
    order: Order = Order()


def with_profile(schedule: Schedule, profile: str) -> Schedule:
    """The same schedule under the rules of another release. Raises `UsageError` if that one has no such runner."""
    pipeline = msgspec.structs.replace(schedule.pipeline, profile=profile)
    return validate(msgspec.structs.replace(schedule, pipeline=pipeline))


def actors(pp: int) -> list[str]:
    """Names of everything that can act, in canonical order of precedence: devices, side stream, hosts, engine."""
    return [f"device{r}" for r in range(pp)] + ["side"] + [f"host{r}" for r in range(pp)] + ["engine"]


def validate(schedule: Schedule) -> Schedule:
    """Check what types cannot say. Raises `UsageError` naming the value and the remedy."""
    p, limits = schedule.pipeline, schedule.limits
    if schedule.format != FORMAT:
        raise UsageError(f"schedule format {schedule.format} is unknown: this release reads format {FORMAT}")
    _check(1 <= p.pp <= MAX_PP, f"pipeline.pp is {p.pp}: give 1 to {MAX_PP} ranks")
    _check(0 <= p.drafts <= 16, f"pipeline.drafts is {p.drafts}: give 0 to 16")
    _check(p.profile in PROFILES, f"pipeline.profile is {p.profile!r}: known profiles are {', '.join(PROFILES)}")
    _check(
        schedule.layout.num_drafts == p.drafts,
        f"layout.num_drafts is {schedule.layout.num_drafts} but pipeline.drafts is {p.drafts}: make them equal",
    )
    _check(
        not (p.runner == "v1" and p.async_scheduling and p.pp > 1),
        "pipeline.async_scheduling is true with runner v1 and pp > 1, which the engine does not support: set it false",
    )
    _check(
        p.runner == "v2" or p.profile in WITH_RUNNER_V1,
        f"pipeline.runner is 'v1' with profile {p.profile}, a release without it: set runner 'v2', or an older profile",
    )
    try:
        check_draft_ranges(p.drafts_per_batch_size)
    except ValueError as error:
        raise UsageError(f"pipeline.drafts_per_batch_size: {error}") from None
    _sizes(schedule)
    _check(bool(schedule.requests), "requests is empty: give at least one request")
    ids = [r.id for r in schedule.requests]
    for name, count in Counter(ids).items():
        _check(count == 1, f"request id {name!r} occurs {count} times: make ids unique")
        _check(
            name.isprintable() and 0 < len(name) <= 64,
            f"request id {name[:64]!r}: give 1 to 64 printable characters",
        )
    for r in schedule.requests:
        _check(r.prompt_len >= 1, f"request {r.id}: prompt_len is {r.prompt_len}: give at least 1 token")
        _check(r.max_tokens >= 1, f"request {r.id}: max_tokens is {r.max_tokens}: give at least 1 token")
        _check(r.arrival >= 1, f"request {r.id}: arrival is {r.arrival}: engine iterations count from 1")
        _check(
            r.cache_salt.isprintable() and len(r.cache_salt) <= 64,
            f"request {r.id}: cache_salt is {r.cache_salt[:64]!r}: give at most 64 printable characters",
        )
        _check(0 <= r.stop <= r.max_tokens, f"request {r.id}: stop is {r.stop}: give 0 (none) to max_tokens")
        total = r.prompt_len + r.max_tokens
        _check(
            total <= limits.max_model_len,
            f"request {r.id}: prompt_len + max_tokens is {total}, over limits.max_model_len {limits.max_model_len}: "
            "raise the limit or shorten the request",
        )
        _check(
            bool(r.accepted) and all(0 <= a <= p.drafts for a in r.accepted),
            f"request {r.id}: accepted is {list(r.accepted)}: give one or more counts from 0 to pipeline.drafts",
        )
    for a in schedule.aborts:
        _check(a.request in ids, f"abort of {a.request!r}: no such request; known are {', '.join(ids)}")
    known = actors(p.pp)
    rule = schedule.order.rule
    if not isinstance(rule, msgspec.UnsetType):
        _check(not rule.objection(), f"order.rule.{rule.objection()}")
        _check(not schedule.order.holds, "order has holds beside a rule: keep one of the two")
    for a in schedule.aborts:
        _check(a.step >= 1, f"abort of {a.request!r}: step is {a.step}: steps count from 1")
    for reset in schedule.resets:
        _check(reset.step >= 1, f"resets has step {reset.step}: steps count from 1")
        _check(
            not (reset.running and not p.async_scheduling and p.pp > 1 and p.drafts),
            f"resets at step {reset.step} preempts in a synchronous engine with {p.pp} ranks and drafts, which then "
            "schedules drafts of the dropped output without a token of their own: set running false",
        )
    for at, choice in schedule.order.picks:
        _check(at >= 0 and choice >= 0, f"order.picks has ({at}, {choice}): decisions and choices count from 0")
    both = schedule.order.threads is not msgspec.UNSET and schedule.order.lags is not msgspec.UNSET
    _check(not both, "order has lags beside threads: keep one of the two")
    for lag in schedule.order.lags or ():
        numbers = (lag.rank, lag.step, lag.program, lag.warp, lag.access)
        _check(
            min(numbers) >= 0 and lag.rank < p.pp,
            f"order.lags has {lag}: ranks count from 0 to pp - 1, and nothing is below 0",
        )
    for h in schedule.order.holds:
        _check(
            h.at >= 0 and h.decisions >= 1,
            f"order.holds has at {h.at}, decisions {h.decisions}: decisions count from 0, a hold lasts at least 1",
        )
        _check(h.actor in known, f"order.holds names {h.actor!r}: actors are {', '.join(known)}")
    return schedule


def _sizes(schedule: Schedule) -> None:
    """Bounds within which nothing overflows; `run.sizes` compares the whole with the memory there is."""
    layout, limits = schedule.layout, schedule.limits
    _check(len(layout.groups) <= 64, f"layout.groups has {len(layout.groups)} groups: give at most 64")
    _check(
        any(g.kind == "recurrent" for g in layout.groups),
        "layout.groups has no recurrent group: give at least one, whose states the kernels copy",
    )
    known: dict[str, tuple[int | None, int, int]] = {
        "layout.layers": (layout.layers, 1, 4096),
        "layout.num_blocks": (layout.num_blocks, 2, 1 << 24),
        "layout.conv_kernel": (layout.conv_kernel, 2, 1024),
        "layout.page_padding": (layout.page_padding, 0, 1 << 30),
        "layout.base_offset": (layout.base_offset, 0, 1 << 40),
        "limits.max_num_seqs": (limits.max_num_seqs, 1, 1 << 14),
        "limits.max_num_active_seqs": (limits.max_num_active_seqs, 1, limits.max_num_seqs),
        "limits.max_num_batched_tokens": (limits.max_num_batched_tokens, 1, 1 << 24),
        "limits.max_model_len": (limits.max_model_len, 1, 1 << 24),
        "limits.prefill_schedule_interval": (limits.prefill_schedule_interval, 1, 1 << 14),
        "limits.cache_aware_admission_window": (limits.cache_aware_admission_window, 0, 1 << 14),
        "limits.staging_depth": (limits.staging_depth, 1, 1 << 14),
        "limits.max_steps": (limits.max_steps, 1, 1 << 24),
    }
    for i, group in enumerate(layout.groups):
        known[f"layout.groups[{i}].block_size"] = group.block_size, 1, 1 << 24
        known[f"layout.groups[{i}].kv_bytes"] = group.kv_bytes, 1, 1 << 24
        for j, state in enumerate(group.states):
            known[f"layout.groups[{i}].states[{j}].dim"] = state.dim, 1, 1 << 24
            known[f"layout.groups[{i}].states[{j}].elem_size"] = state.elem_size, 1, 64
    for name, (value, least, most) in known.items():
        _bounded(name, value, least, most)


def _bounded(name: str, value: int | None, least: int, most: int) -> None:
    _check(value is None or least <= value <= most, f"{name} is {_short(value)}: give {least} to {most}")


def _short(value: int | None) -> str:
    """A number as an error shows it: Python refuses to print one of thousands of digits."""
    return str(value) if value is None or abs(value) < 10**30 else "a number of more than 30 digits"


def _check(ok: bool, message: str) -> None:
    if not ok:
        raise UsageError(message)
