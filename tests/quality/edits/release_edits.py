"""Edits of vLLM 0.32.0's own worker, scheduler and kernels, each a mistake that could be made there."""

from __future__ import annotations

from release_edit import Edit

HYBRID = "v1/worker/gpu/model_states/mamba_hybrid.py"
MAMBA = "v1/worker/mamba_utils.py"
TABLE = "v1/worker/gpu/block_table.py"
STATES = "v1/worker/gpu/states.py"
PIPELINE = "v1/worker/gpu/pp_utils.py"
RUNNER = "v1/worker/gpu/model_runner.py"
INPUT = "v1/worker/gpu/input_batch.py"
ASYNC = "v1/core/sched/async_scheduler.py"
SCHEDULER = "v1/core/sched/scheduler.py"
POOL = "v1/core/block_pool.py"
MANAGER = "v1/core/single_type_kv_cache_manager.py"
STATE = "MambaHybridModelState"
POSTPROCESS = "postprocess_mamba_fused_kernel"
PREPROCESS = "preprocess_mamba_align_fused_kernel"
PRECOPY = "precopy_mamba_align_fused_kernel"
COPY = "_copy_mamba_state_block"
INDICES = "get_aligned_state_indices_multi_group_kernel"

EDITS = (
    # Kernels.
    Edit(MAMBA, POSTPROCESS, "rename", "req_idx", "batch_idx", 4),
    Edit(MAMBA, POSTPROCESS, "offset", "num_tokens_running_state", "1"),
    Edit(MAMBA, POSTPROCESS, "offset", "dest_block_idx", "1"),
    Edit(MAMBA, POSTPROCESS, "offset", "accept_token_bias", "1"),
    Edit(MAMBA, POSTPROCESS, "negate", "needs_copy"),
    Edit(MAMBA, POSTPROCESS, "argument", COPY, "1=batch_idx"),
    Edit(MAMBA, POSTPROCESS, "swap", COPY, "2,3"),
    Edit(MAMBA, POSTPROCESS, "value", "needs_copy", "aligned_new_computed > num_tokens_running_state"),
    Edit(MAMBA, PREPROCESS, "offset", "new_state_idx", "1"),
    Edit(MAMBA, PREPROCESS, "value", "src_off", "num_accepted * 0"),
    Edit(MAMBA, PREPROCESS, "value", "should_reset", "state_idx < 0"),
    Edit(MAMBA, PREPROCESS, "drop", "store", nth=2),
    Edit(MAMBA, PREPROCESS, "drop", "store", nth=3),
    Edit(MAMBA, PREPROCESS, "offset", "computed_after", "-1"),
    Edit(MAMBA, PRECOPY, "negate", "src_col"),
    Edit(MAMBA, PRECOPY, "argument", COPY, "1=batch_idx"),
    Edit(MAMBA, PRECOPY, "argument", COPY, "4=token_bias * 0"),
    Edit(MAMBA, PRECOPY, "swap", COPY, "2,3"),
    Edit(MAMBA, INDICES, "offset", "first_state_slot", "1"),
    Edit(INPUT, "_post_update_kernel", "negate", "req_state_idx"),
    Edit(INPUT, "_post_update_kernel", "offset", "computed_delta", "num_rejected"),
    Edit(INPUT, "_post_update_kernel", "drop", "store", nth=0),
    Edit(TABLE, "_gather_block_tables_kernel", "rename", "req_idx", "batch_idx", 2),
    Edit(TABLE, "_gather_block_tables_kernel", "offset", "num_blocks", "-1"),
    Edit(TABLE, "_compute_slot_mappings_kernel", "offset", "block_offsets", "1"),
    Edit(HYBRID, "_scatter_num_accepted_kernel", "value", "num_sampled", "row * 0 + 1"),
    Edit(HYBRID, "_fill_num_accepted_kernel", "drop", "store"),
    # The worker's host.
    Edit(HYBRID, f"{STATE}.add_request", "drop", "fill_", nth=0),
    Edit(HYBRID, f"{STATE}.add_request", "drop", "fill_", nth=1),
    Edit(HYBRID, f"{STATE}.preprocess_state", "drop", "run_fused_precopy"),
    Edit(HYBRID, f"{STATE}.postprocess_state", "drop", "run_fused_postprocess_align"),
    Edit(HYBRID, f"{STATE}.prepare_attn", "negate", "prefill_runs_as_decode_np"),
    Edit(TABLE, "BlockTables.append_block_ids", "value", "start", "0"),
    Edit(TABLE, "BlockTables.append_block_ids", "offset", "start", "1"),
    Edit(TABLE, "BlockTables.apply_staged_writes", "drop", "copy_to_uva"),
    Edit(STATES, "RequestState.add_request", "drop", "stage_write_elem", nth=1),
    Edit(STATES, "RequestState.add_request", "offset", "max_seq_len", "1"),
    Edit(STATES, "RequestState.remove_request", "drop", "append"),
    Edit(PIPELINE, "PPHandler.on_req_idx_freed", "offset", "req_idx_gen_np", "-1"),
    Edit(PIPELINE, "PPHandler.get_prev_sampled_outputs", "value", "exclude_mask", "freed"),
    Edit(PIPELINE, "PPHandler.get_prev_sampled_outputs", "value", "exclude_mask", "~slot.need_sampled_mask"),
    Edit(PIPELINE, "PPHandler.get_prev_sampled_outputs", "drop", "append"),
    Edit(PIPELINE, "compute_need_sampled_mask", "value", "finished_prefill", "prefill_len < 0"),
    Edit(RUNNER, "GPUModelRunner.finish_requests", "negate", "preempted_req_ids"),
    Edit(RUNNER, "GPUModelRunner.add_requests", "drop", "append_block_ids"),
    Edit(RUNNER, "GPUModelRunner.update_requests", "drop", "zero_block_ids"),
    Edit(RUNNER, "GPUModelRunner.update_requests", "drop", "copy_kv_cache_blocks_inplace"),
    Edit(RUNNER, "GPUModelRunner.update_requests", "drop", "append_block_ids"),
    Edit(TABLE, "BlockTables.get_dummy_block_tables", "value", "return", "tuple(self.input_block_tables)"),
    # The scheduler.
    Edit(ASYNC, "AsyncScheduler._update_after_schedule", "value", "next_decode_eligible_step", "self.current_step"),
    Edit(ASYNC, "AsyncScheduler._update_request_with_output", "negate", "status_before_update"),
    Edit(SCHEDULER, "Scheduler._preempt_request", "drop", "_free_request_blocks"),
    Edit(SCHEDULER, "Scheduler._free_request_blocks", "negate", "_request_blocks_can_be_freed"),
    Edit(SCHEDULER, "Scheduler._drain_deferred_frees", "negate", "fence"),
    Edit(POOL, "BlockPool.touch", "offset", "ref_cnt", "1"),
    Edit(POOL, "BlockPool.free_blocks", "offset", "ref_cnt", "1"),
    Edit(MANAGER, "MambaManager.remove_skipped_blocks", "drop", "free_blocks"),
    Edit(MANAGER, "MambaManager.find_longest_cache_hit", "offset", "hit_length", "1", 2),
    Edit(MANAGER, "MambaManager.get_num_blocks_to_allocate", "negate", "cached_blocks_this_step"),
)
