"""A schedule as the engine's own worker can serve it: the nearest one that the engine would accept.

What is taken away is what `schedule.faithful` takes away, and what the engine's options cannot state beside it.
"""

from __future__ import annotations

import msgspec

from stalerow.kernels.base.layout import GroupSpec, StateSpec
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
    schedule = as_faithful(schedule)
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


def _group(group: GroupSpec) -> GroupSpec:
    if group.kind == "attention" or tuple(state.kind for state in group.states) in KINDS:
        return group
    return msgspec.structs.replace(group, states=(StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2)))
