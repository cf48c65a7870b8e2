"""What a schedule does that the engine being modelled never would, and the nearest schedule that does none of it.

Random schedules go further than any release on purpose: odd sizes find bugs that round ones hide. `is_faithful` names
what a release would not do; `as_faithful` takes it away, so that a campaign can keep to what may happen in production.
Both look at the schedule alone. What cannot be told from it (scale, for one: real blocks hold hundreds of tokens) is in
the README.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.schedule.values import Limits, Pipeline, Schedule, validate

ADDRESS_UNIT = 16
"""Bytes to which a release's cache tensors and pages are aligned at least."""


def is_faithful(schedule: Schedule) -> list[str]:
    """Why the engine would never do this, one sentence each; empty if it may."""
    return [*_pipeline(schedule), *_limits(schedule), *_layout(schedule.layout)]


def _pipeline(schedule: Schedule) -> list[str]:
    pipeline, size = schedule.pipeline, schedule.layout.recurrent_block_size
    reasons = []
    if pipeline.runner == "v1" and pipeline.pp > 1:
        reasons.append(
            "runner v1 with pp > 1: every rank postprocesses within the step, as only the external launcher does it"
        )
    if size <= pipeline.drafts:
        reasons.append(
            f"recurrent blocks of {size} tokens with {pipeline.drafts} drafts: a decode step spans blocks; "
            "real ones hold hundreds of tokens"
        )
    return reasons


def _limits(schedule: Schedule) -> list[str]:
    limits, pipeline = schedule.limits, schedule.pipeline
    size, budget = schedule.layout.recurrent_block_size, limits.max_num_batched_tokens
    in_flight = pipeline.pp + int(pipeline.async_scheduling)
    reasons = []
    if not limits.prefix_caching:
        reasons.append("prefix_caching false: states are aligned to blocks for the prefix cache only")
    if size > budget:
        reasons.append(f"recurrent blocks of {size} tokens over a budget of {budget}: no step could fill one")
    if limits.max_num_seqs > budget:
        reasons.append(f"max_num_seqs {limits.max_num_seqs} over a budget of {budget} tokens: the engine refuses it")
    if limits.staging_depth is not None and limits.staging_depth < in_flight:
        reasons.append(f"staging_depth {limits.staging_depth}: releases have a buffer for each of {in_flight} steps")
    dropped = [n for n in limits.graph_sizes if n * (pipeline.drafts + 1) > budget]
    if dropped:
        reasons.append(f"graph sizes {dropped}: the engine captures none beyond its budget of {budget} tokens")
    return reasons


def _layout(layout: Layout) -> list[str]:
    reasons = []
    size = layout.recurrent_block_size
    others = sorted({g.block_size for g in layout.groups if g.kind == "attention"} - {size})
    if others:
        reasons.append(f"attention blocks of {others} tokens beside recurrent {size}: the engine makes them equal")
    if any(_conv_last(g.states) for g in layout.groups):
        reasons.append("a temporal state packed before a conv one: the engine puts conv first")
    if any(g.kind == "attention" and g.kv_bytes % 2 for g in layout.groups):
        reasons.append("an odd number of KV bytes a token: keys and values have the same size")
    if layout.base_offset % ADDRESS_UNIT or layout.page_bytes % ADDRESS_UNIT:
        reasons.append(
            f"pages of {layout.page_bytes} bytes from offset {layout.base_offset}: the engine's are multiples of "
            f"{ADDRESS_UNIT}"
        )
    if any(e.spec.elem_size == 1 or e.offset % e.spec.elem_size for e in layout.states):
        reasons.append("a state of one-byte elements, or not aligned to its elements: the engine has neither")
    return reasons


def _conv_last(states: tuple[StateSpec, ...]) -> bool:
    kinds = [s.kind for s in states]
    return "conv" in kinds and kinds != sorted(kinds)


def as_faithful(schedule: Schedule, keep_runner: bool = False) -> Schedule:
    """The nearest schedule that `is_faithful` has nothing to say about; the same one if that is the case already.

    `keep_runner` leaves runner V1 with pp > 1, which the caller has asked for, as the one thing still to be said.
    """
    if not is_faithful(schedule):
        return schedule
    pipeline = schedule.pipeline
    if pipeline.runner == "v1" and pipeline.pp > 1 and not keep_runner:
        pipeline = _replace(pipeline, runner="v2", async_scheduling=True)
    layout = _aligned(schedule.layout)
    if layout.recurrent_block_size <= pipeline.drafts:
        layout = _resized(layout, pipeline.drafts + 1)
    layout = _aligned(_resized(layout, layout.recurrent_block_size))
    return validate(
        _replace(
            schedule,
            draw=None,
            pipeline=pipeline,
            layout=layout,
            limits=_limited(schedule.limits, pipeline, layout),
        )
    )


def _replace(value: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(value, **changes)


def _limited(limits: Limits, pipeline: Pipeline, layout: Layout) -> Limits:
    size = layout.recurrent_block_size
    budget = max(limits.max_num_batched_tokens, size, limits.max_num_seqs)
    interval = limits.retention_interval
    in_flight = pipeline.pp + int(pipeline.async_scheduling)
    made: Limits = _replace(
        limits,
        prefix_caching=True,
        max_num_batched_tokens=budget,
        max_model_len=limits.max_model_len + 1,
        retention_interval=-(-interval // size) * size if interval else interval,
        graph_sizes=tuple(n for n in limits.graph_sizes if n * (pipeline.drafts + 1) <= budget),
        staging_depth=None if limits.staging_depth is None else max(limits.staging_depth, in_flight),
    )
    return made


def _resized(layout: Layout, size: int) -> Layout:
    """All groups with blocks of `size` tokens. Never fewer blocks: a smaller attention block needs more of them."""
    smallest = min(g.block_size for g in layout.groups)
    largest = max(g.block_size for g in layout.groups)
    groups = tuple(_replace(g, block_size=size) for g in layout.groups)
    more = -(-largest // size) if size > 0 and smallest != largest else 1
    made: Layout = _replace(layout, groups=groups, num_blocks=1 + (layout.num_blocks - 1) * more)
    return made


def _aligned(layout: Layout) -> Layout:
    groups = tuple(_group(g) for g in layout.groups)
    made: Layout = _replace(layout, groups=groups, base_offset=layout.base_offset // ADDRESS_UNIT * ADDRESS_UNIT)
    made = _replace(made, page_padding=made.page_padding + -made.page_bytes % ADDRESS_UNIT)
    return made


def _group(group: GroupSpec) -> GroupSpec:
    """Conv states first, elements of two bytes or more, every row a whole number of eight bytes."""
    states = tuple(_state(s) for s in sorted(group.states, key=lambda s: s.kind))
    made: GroupSpec = _replace(group, states=states, kv_bytes=group.kv_bytes + group.kv_bytes % 2)
    return made


def _state(spec: StateSpec) -> StateSpec:
    size = max(spec.elem_size, 2)
    return StateSpec(spec.kind, -(-spec.dim * size // 8) * 8 // size, size)
