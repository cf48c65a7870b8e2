"""A schedule as the engine's own worker can serve it: the nearest one that the engine would accept.

What is taken away is what `schedule.faithful` takes away, but for attention blocks that are a fraction of the recurrent
ones, which an engine may be asked for, and what the engine's options cannot state.
"""

from __future__ import annotations

import msgspec

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.schedule.faithful import as_faithful
from stalerow.simulator.schedule.values import Schedule

KINDS = (("conv", "temporal"), ("temporal",), ("conv",), ("conv", "temporal", "temporal"))
"""States of a layer for which the engine has a recurrent kind."""


def served(schedule: Schedule) -> Schedule:
    """The schedule to run; the same one if nothing is in the way."""
    replace = msgspec.structs.replace
    pipeline = schedule.pipeline
    if pipeline.runner != "v2" or not pipeline.async_scheduling or pipeline.drafter != "mtp":
        asked = replace(pipeline, runner="v2", async_scheduling=True, drafter="mtp")
        schedule = replace(schedule, pipeline=asked)
    size = _attention_size(schedule.layout)
    if size is None:
        schedule = as_faithful(schedule)
    else:
        level = _with_attention_size(schedule.layout, schedule.layout.recurrent_block_size)
        schedule = as_faithful(replace(schedule, layout=level))
        schedule = replace(schedule, layout=_with_attention_size(schedule.layout, size))
    limits = schedule.limits
    if limits.long_prefill_token_threshold > limits.max_model_len:
        # No prompt is longer, so it means the same; the engine refuses more.
        limits = replace(limits, long_prefill_token_threshold=limits.max_model_len)
        schedule = replace(schedule, limits=limits)
    layout = schedule.layout
    if layout.base_offset:
        layout = replace(layout, base_offset=0)
    groups = tuple(_group(group) for group in layout.groups)
    if groups != layout.groups:
        layout = replace(layout, groups=groups)
    if padding := -layout.page_bytes % 16:
        layout = replace(layout, page_padding=layout.page_padding + padding)
    return schedule if layout == schedule.layout else replace(schedule, layout=layout)


def _attention_size(layout: Layout) -> int | None:
    """The tokens of an attention block, if that is a fraction of a recurrent one that the engine may be asked for."""
    sizes, recurrent = {layout.groups[g].block_size for g in layout.attention_groups}, layout.recurrent_block_size
    if len(sizes) != 1 or min(sizes) >= recurrent or recurrent % min(sizes) or recurrent <= layout.num_drafts:
        return None
    return min(sizes)


def _with_attention_size(layout: Layout, size: int) -> Layout:
    groups = list(layout.groups)
    for group in layout.attention_groups:
        groups[group] = msgspec.structs.replace(groups[group], block_size=size)
    return msgspec.structs.replace(layout, groups=tuple(groups))


def _group(group: GroupSpec) -> GroupSpec:
    if group.kind == "attention" or tuple(state.kind for state in group.states) in KINDS:
        return group
    return msgspec.structs.replace(group, states=(StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2)))
