"""A schedule in the engine's words: its scheduler, and for each rank a configuration, layers and a cache layout."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from typing import Any

import torch
from vllm.model_executor.layers.mamba.mamba_utils import get_conv_state_layout
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheTensor,
    MambaSpec,
)

from stalerow.kernels.base.layout import GroupSpec, Layout
from stalerow.simulator.conform.engine import released_options
from stalerow.simulator.schedule.engine_config import engine_config
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.worker.inside.model import KvLayer, RecurrentLayer, mamba_type
from stalerow.simulator.worker.inside.warm import Engine

DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(slots=True)
class RankConfig:
    """What one rank's model runner is made from."""

    vllm: Any
    cache: Any


def scheduler(engine: Engine, schedule: Schedule) -> Any:
    """A session with the engine's own scheduler, set up for the schedule."""
    os.environ["VLLM_SSM_CONV_STATE_LAYOUT"] = schedule.layout.conv_layout
    get_conv_state_layout.cache_clear()
    options = {**engine.steps.DEFAULTS, **released_options(engine_config(schedule))}
    released = engine.steps.Released(engine.api, engine.model_folder, options)
    released.config.cache_config.num_gpu_blocks_override = schedule.layout.num_blocks
    return engine.steps.Session(released)


def rank_config(session: Any, layout: Layout, rank: int) -> RankConfig:
    """The configuration of one rank, with layers of its own."""
    config = copy.deepcopy(session.released.config)
    context = config.compilation_config.static_forward_context
    groups, tensors = [], []
    for index, (group, theirs) in enumerate(zip(layout.groups, session.released.kv_config.kv_cache_groups)):
        spec = cache_spec(group, layout)
        names = [layer_name(rank, layer, index, group.kind) for layer in range(layout.layers)]
        for name in names:
            context[name] = RecurrentLayer(name, spec) if group.kind == "recurrent" else KvLayer(name, spec)
        made = KVCacheGroupSpec(names, spec)
        made.is_eagle_group = theirs.is_eagle_group
        groups.append(made)
        tensors.append(
            KVCacheTensor(
                size=layout.layers * layout.num_blocks * layout.page_bytes,
                layers=names,
                layer_stride=layout.num_blocks * layout.page_bytes,
                block_stride=layout.page_bytes,
            )
        )
    # As the engine core tells its workers: the smallest block of all groups.
    config.cache_config.block_size = min(group.block_size for group in layout.groups)
    cache = KVCacheConfig(num_blocks=layout.num_blocks, kv_cache_tensors=tensors, kv_cache_groups=groups)
    return RankConfig(config, cache)


def layer_name(rank: int, layer: int, group: int, kind: str) -> str:
    """Unique over ranks, and with the layer's number where the engine looks for it."""
    number = rank * 1000 + layer * 100 + group
    return f"model.layers.{number}." + ("linear_attn" if kind == "recurrent" else "self_attn.attn")


def cache_spec(group: GroupSpec, layout: Layout) -> Any:
    if group.kind == "attention":
        return FullAttentionSpec(
            block_size=group.block_size,
            num_kv_heads=1,
            head_size=group.kv_bytes // 2,
            dtype=torch.int8,
            page_size_padded=layout.page_bytes,
        )
    shapes, dtypes = [], []
    for state in group.states:
        shape: tuple[int, ...] = (state.dim,)
        if state.kind == "conv":
            shape = (layout.width, state.dim) if layout.conv_layout == "SD" else (state.dim, layout.width)
        shapes.append(shape)
        dtypes.append(DTYPES[state.elem_size])
    return MambaSpec(
        shapes=tuple(shapes),
        dtypes=tuple(dtypes),
        block_size=group.block_size,
        page_size_padded=layout.page_bytes,
        mamba_type=mamba_type(group),
        mamba_cache_mode="align",
        num_speculative_blocks=layout.num_drafts,
    )
