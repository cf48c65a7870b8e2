"""A schedule's pipeline, limits and memory layout as the engine's options."""

from __future__ import annotations

from stalerow.simulator.engine.config import EngineConfig, GroupConfig
from stalerow.simulator.schedule.values import Schedule


def engine_config(schedule: Schedule) -> EngineConfig:
    """The engine's options for a schedule. The attention group holds the drafter's layer when there are drafts."""
    p, limits = schedule.pipeline, schedule.limits
    groups = tuple(
        GroupConfig(
            g.kind,
            g.block_size,
            draft=p.drafts > 0 and p.drafter == "mtp" and g.kind == "attention",
            spec=len(g.states),
        )
        for g in schedule.layout.groups
    )
    return EngineConfig(
        groups=groups,
        num_blocks=schedule.layout.num_blocks,
        pipeline_parallel_size=p.pp,
        num_speculative_tokens=p.drafts,
        drafter=p.drafter,
        num_speculative_tokens_per_batch_size=p.drafts_per_batch_size,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        max_model_len=limits.max_model_len,
        prefix_match_unit=limits.prefix_match_unit,
        retention_interval=limits.retention_interval,
        async_scheduling=p.async_scheduling,
        model_runner=1 if p.runner == "v1" else 2,
        enable_prefix_caching=limits.prefix_caching,
        long_prefill_token_threshold=limits.long_prefill_token_threshold,
        long_prefill_token_threshold_adaptive=limits.long_prefill_token_threshold_adaptive,
        max_num_active_seqs=limits.max_num_active_seqs,
        prefill_schedule_interval=limits.prefill_schedule_interval,
        cache_aware_admission_window=limits.cache_aware_admission_window,
        cache_aware_admission_threshold=limits.cache_aware_admission_threshold,
        reserve_full_isl=limits.reserve_full_isl,
        policy=limits.policy,
        watermark=limits.watermark,
        shared_prefix_checkpoint=limits.shared_prefix_checkpoint,
        drop_draft_block=limits.drop_draft_block,
        lookahead_hashes=limits.lookahead_hashes,
    )
