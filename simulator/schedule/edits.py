"""Small simplifications of a schedule that generator choices do not offer, the largest first.

In: a schedule. Out: candidates, each valid and simpler in one respect; `shrink` keeps those that still fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from stalerow.kernels.base.layout import GroupSpec, StateSpec
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.order import Hold, Order
from stalerow.simulator.schedule.values import Limits, Request, Schedule, actors, validate

T = TypeVar("T")

PLAIN_STATES = (StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2))


def edits(schedule: Schedule) -> Iterator[Schedule]:
    """Simpler schedules, each different from the given one. Invalid ones are left out."""
    for fields in _changes(schedule):
        try:
            edited = validate(replace(schedule, **fields))
        except (UsageError, ValueError):
            continue
        if edited != schedule:
            yield edited


def _changes(schedule: Schedule) -> Iterator[dict[str, Any]]:
    yield from _fewer_requests(schedule)
    yield from _fewer_deviations(schedule)
    yield from _smaller_pipeline(schedule)
    yield from _plainer_requests(schedule)
    yield from _smaller_blocks(schedule)
    yield from _plainer_memory(schedule)


def _smaller_blocks(schedule: Schedule) -> Iterator[dict[str, Any]]:
    """Blocks of half the tokens, with prompts as they are or half as long; as many slots in the pool as before."""
    layout, limits = schedule.layout, schedule.limits
    sizes = [group.block_size for group in layout.groups]
    if any(size % 2 for size in sizes) or layout.recurrent_block_size // 2 <= layout.num_drafts:
        return
    groups = tuple(replace(group, block_size=group.block_size // 2) for group in layout.groups)
    interval, unit = limits.retention_interval, limits.prefix_match_unit
    fields = {
        "layout": replace(layout, groups=groups, num_blocks=2 * layout.num_blocks - 1),
        "limits": replace(
            limits, retention_interval=interval and interval // 2, prefix_match_unit=unit and max(unit // 2, 1)
        ),
    }
    yield fields
    shares = [r.share and (r.share[0], r.share[1] // 2) for r in schedule.requests]
    halved = [replace(r, prompt_len=(r.prompt_len + 1) // 2, share=s) for r, s in zip(schedule.requests, shares)]
    yield fields | {"requests": tuple(halved)}


def _fewer_requests(schedule: Schedule) -> Iterator[dict[str, Any]]:
    requests = schedule.requests
    for i in range(len(requests)) if len(requests) > 1 else ():
        kept = requests[:i] + requests[i + 1 :]
        names = {r.id for r in kept}
        yield {"requests": kept, "aborts": tuple(a for a in schedule.aborts if a.request in names)}
    yield from _merged_requests(schedule)
    for i in range(len(schedule.resets)):
        yield {"resets": schedule.resets[:i] + schedule.resets[i + 1 :]}
    for i in range(len(schedule.aborts)):
        yield {"aborts": schedule.aborts[:i] + schedule.aborts[i + 1 :]}


def _merged_requests(schedule: Schedule) -> Iterator[dict[str, Any]]:
    """Leave a request out and let another take longer: it may have been there only to fill a step."""
    requests = schedule.requests
    if schedule.aborts or len(requests) < 3:
        return
    for i, gone in enumerate(requests):
        kept = requests[:i] + requests[i + 1 :]
        for j, other in enumerate(kept):
            longer = (
                {"arrival": other.arrival + 1},
                {"arrival": other.arrival + 2},
                {"max_tokens": other.max_tokens + gone.max_tokens},
                {"prompt_len": other.prompt_len + gone.prompt_len},
                {"prompt_len": gone.prompt_len, "max_tokens": gone.max_tokens},
            )
            for fields in longer:
                yield {"requests": kept[:j] + (replace(other, **fields),) + kept[j + 1 :]}


def _fewer_deviations(schedule: Schedule) -> Iterator[dict[str, Any]]:
    order = schedule.order
    if order.deviations > 1 or order.rule is not UNSET:
        yield {"order": Order(threads=order.threads, lags=order.lags)}
    if order.lags:
        yield {"order": replace(order, lags=())}
        for lags in _without_some(order.lags):
            yield {"order": replace(order, lags=lags)}
    for holds in _without_some(order.holds):
        yield {"order": replace(order, holds=holds)}
    for picks in _without_some(order.picks):
        yield {"order": replace(order, picks=picks)}
    for holds in _joined(order.holds):
        yield {"order": replace(order, holds=holds)}
    for i, hold in enumerate(order.holds):
        if hold.decisions > 1:
            shorter = replace(hold, decisions=hold.decisions // 2)
            yield {"order": replace(order, holds=order.holds[:i] + (shorter,) + order.holds[i + 1 :])}


def _joined(holds: tuple[Hold, ...]) -> Iterator[tuple[Hold, ...]]:
    """With all holds of one actor as one, from the first to the end of the last; then two neighbours at a time."""
    for actor in dict.fromkeys(hold.actor for hold in holds):
        own = [hold for hold in holds if hold.actor == actor]
        spans = [own] if len(own) > 1 else []
        spans += [[a, b] for a, b in itertools.pairwise(own)] if len(own) > 2 else []
        for parts in spans:
            stop = max(hold.at + hold.decisions for hold in parts)
            one = Hold(at=parts[0].at, actor=actor, decisions=stop - parts[0].at)
            kept = [one if hold is parts[0] else hold for hold in holds if hold is parts[0] or hold not in parts]
            yield tuple(kept)


def _without_some(deviations: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Without a half, a quarter, ... down to single ones; late ones first, whose absence moves no other."""
    size = len(deviations) // 2
    while size > 1:
        for stop in range(len(deviations), 0, -size):
            yield deviations[: max(stop - size, 0)] + deviations[stop:]
        size //= 2
    for i in reversed(range(len(deviations))):
        yield deviations[:i] + deviations[i + 1 :]


def _smaller_pipeline(schedule: Schedule) -> Iterator[dict[str, Any]]:
    pipeline = schedule.pipeline
    yield {"pipeline": replace(pipeline, drafter="mtp")}
    yield {"pipeline": replace(pipeline, drafts_per_batch_size=())}
    for pp in range(2, pipeline.pp):
        names = actors(pp)
        holds = tuple(h for h in schedule.order.holds if h.actor in names)
        lags = schedule.order.lags and tuple(lag for lag in schedule.order.lags if lag.rank < pp)
        fewer = {"pipeline": replace(pipeline, pp=pp), "order": replace(schedule.order, holds=holds, lags=lags)}
        yield fewer
        # Fewer ranks shift who meets whom: let one request begin or end a little later with it.
        for i, request in enumerate(schedule.requests):
            for name, more in (("arrival", 1), ("arrival", 2), ("max_tokens", 1), ("max_tokens", 3)):
                later = replace(request, **{name: getattr(request, name) + more})
                yield fewer | {"requests": schedule.requests[:i] + (later,) + schedule.requests[i + 1 :]}
    for drafts in range(1, pipeline.drafts):
        requests = tuple(replace(r, accepted=tuple(min(a, drafts) for a in r.accepted)) for r in schedule.requests)
        layout = replace(schedule.layout, num_drafts=drafts)
        yield {"pipeline": replace(pipeline, drafts=drafts), "layout": layout, "requests": requests}


def _plainer_requests(schedule: Schedule) -> Iterator[dict[str, Any]]:
    for i, request in enumerate(schedule.requests):
        for plainer in _plainer(request):
            yield {"requests": schedule.requests[:i] + (plainer,) + schedule.requests[i + 1 :]}
    earliest = min(r.arrival for r in schedule.requests)
    if earliest > 1:
        yield {"requests": tuple(replace(r, arrival=r.arrival - earliest + 1) for r in schedule.requests)}


def _plainer(request: Request) -> Iterator[Request]:
    yield replace(request, share=None)
    yield replace(request, stop=0)
    yield replace(request, cache_salt="")
    yield replace(request, skip_reading_prefix_cache=False)
    yield replace(request, priority=0)
    yield replace(request, accepted=request.accepted[:1])
    for name in ("prompt_len", "max_tokens", "arrival"):
        value = getattr(request, name)
        for smaller in (1, value // 2, value - 1):
            if 1 <= smaller < value:
                yield replace(request, **{name: smaller})


def _plainer_memory(schedule: Schedule) -> Iterator[dict[str, Any]]:
    layout, limits = schedule.layout, schedule.limits
    recurrent = [g for g in layout.groups if g.kind == "recurrent"]
    attention = [g for g in layout.groups if g.kind == "attention"]
    plain = GroupSpec("recurrent", recurrent[0].block_size, states=PLAIN_STATES)
    for count in range(1, len(recurrent) + 1):
        yield {"layout": replace(layout, groups=(plain,) * count + tuple(attention))}
    if len(recurrent) > 1:
        yield {"layout": replace(layout, groups=tuple(recurrent[1:] + attention))}
    for name, value in (("layers", 1), ("page_padding", 0), ("base_offset", 0), ("conv_layout", "SD")):
        yield {"layout": replace(layout, **{name: value})}
    plainest = Limits(max_model_len=limits.max_model_len)
    for name in (
        "graph_sizes",
        "retention_interval",
        "max_num_seqs",
        "max_num_batched_tokens",
        "long_prefill_token_threshold",
        "long_prefill_token_threshold_adaptive",
        "max_num_active_seqs",
        "prefill_schedule_interval",
        "cache_aware_admission_window",
        "cache_aware_admission_threshold",
        "reserve_full_isl",
        "watermark",
        "shared_prefix_checkpoint",
        "lookahead_hashes",
        "policy",
    ):
        yield {"limits": replace(limits, **{name: getattr(plainest, name)})}
