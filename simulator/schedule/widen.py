"""What only some bugs need from a schedule: groups of different block sizes, pages packed another way, prompts of one
token where chunks are tiny, and a queue where cached prefixes go first.

The last choices of `generate`; the simple answers leave the schedule as it is. In: a schedule in its simple shape.
Out: the same requests in a wider layout, or others where the queue or the chunks ask for it.
"""

from __future__ import annotations

import math

import msgspec

from stalerow.kernels.base.layout import GroupSpec, Layout
from stalerow.simulator.schedule.choosers import Chooser
from stalerow.simulator.schedule.values import Schedule

LONG_ENOUGH = 12
"""Outputs of a request that is to decode while others come."""


def widen(chooser: Chooser, schedule: Schedule) -> Schedule:
    """Draw short prompts, another block size for attention (and with it partial hits), another packing of states."""
    tiny = 0 < schedule.limits.long_prefill_token_threshold <= schedule.pipeline.drafts
    if tiny and chooser.pick(4, "one-token arrivals"):
        schedule = _one_token_arrivals(schedule)
    elif schedule.limits.cache_aware_admission_window and chooser.pick(3, "queue behind one"):
        schedule = _queue_behind_one(schedule)
    ratio = (0, 0, -2, 2, -4)[chooser.pick(5, "attention block ratio")]
    reverse = chooser.pick(4, "states reversed") == 3
    layout = schedule.layout
    size = layout.recurrent_block_size
    groups = tuple(_group(g, _size(size, ratio), reverse) for g in layout.groups)
    if ratio == 0:
        return msgspec.structs.replace(schedule, layout=msgspec.structs.replace(layout, groups=groups))
    return _resize(schedule, groups)


def _one_token_arrivals(schedule: Schedule) -> Schedule:
    """All requests but the first have a prompt of one token and come when the first one decodes.

    With tiny chunks a prompt is computed in nearly every step, and no request would ever join decodes alone.
    """
    change, (first, *later) = msgspec.structs.replace, schedule.requests
    first = change(
        first, prompt_len=min(first.prompt_len, 4), share=None, max_tokens=max(first.max_tokens, LONG_ENOUGH)
    )
    room = first.prompt_len + first.max_tokens + schedule.pipeline.drafts + 2
    limits = change(schedule.limits, max_model_len=max(schedule.limits.max_model_len, room))
    short = (change(r, prompt_len=1, share=None, arrival=r.arrival + 4) for r in later)
    return change(schedule, requests=(first, *short), limits=limits)


def _queue_behind_one(schedule: Schedule) -> Schedule:
    """One request runs at a time, the others come with it; every second one begins as the first does."""
    change, limits, size = msgspec.structs.replace, schedule.limits, schedule.layout.recurrent_block_size
    requests, shared = [], 2 * size
    for i, request in enumerate(schedule.requests):
        arrival = schedule.requests[0].arrival + (i > 0)
        if i % 2 == 0:
            request = change(request, share=(1000, shared), prompt_len=max(request.prompt_len, shared + 1))
        requests.append(change(request, arrival=arrival))
    longest = max(r.prompt_len + r.max_tokens for r in requests) + schedule.pipeline.drafts + 2
    crowded = change(
        limits,
        max_num_seqs=1,
        retention_interval=None,
        max_model_len=max(limits.max_model_len, longest),
        cache_aware_admission_threshold=0.0,
    )
    if limits.max_num_active_seqs is not None:
        crowded = change(crowded, max_num_active_seqs=1)
    layout = change(schedule.layout, num_blocks=schedule.layout.num_blocks + 4)
    return change(schedule, requests=tuple(requests), limits=crowded, layout=layout)


def _size(size: int, ratio: int) -> int:
    return size * ratio if ratio > 0 else max(size // -ratio, 1) if ratio else size


def _group(group: GroupSpec, attention: int, reverse: bool) -> GroupSpec:
    if group.kind == "attention":
        return msgspec.structs.replace(group, block_size=attention)
    return msgspec.structs.replace(group, states=group.states[::-1]) if reverse else group


def _resize(schedule: Schedule, groups: tuple[GroupSpec, ...]) -> Schedule:
    """Give the pool as many more blocks as the attention groups need, and round what must be a multiple."""
    limits, old = schedule.limits, schedule.layout
    longest = max(r.prompt_len + r.max_tokens for r in schedule.requests) + old.num_drafts + 1
    needed = sum(-(-longest // g.block_size) + 1 for g in groups if g.kind == "attention")
    had = sum(-(-longest // g.block_size) + 1 for g in old.groups if g.kind == "attention")
    blocks = max(old.num_blocks - had + needed, needed + 2)
    unit = math.lcm(*(g.block_size for g in groups))
    interval = limits.retention_interval
    if interval:
        limits = msgspec.structs.replace(limits, retention_interval=-(-interval // unit) * unit)
    layout: Layout = msgspec.structs.replace(old, groups=groups, num_blocks=blocks)
    return msgspec.structs.replace(schedule, layout=layout, limits=limits)
