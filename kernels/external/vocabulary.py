"""What stalerow knows of the engines' align kernels: names, parameters, and the value behind each.

Parameters are matched by name alone, so their order, and which of them a release has, do not matter. A value
is a dotted path into an `align.StepArguments`. Names and ranges were read from the published wheels of vLLM
0.20.0 to 0.34.0.
"""

FIRST_RELEASE = "0.25.0"
LAST_RELEASE = "0.34.0"

# The kernel that does each of the four jobs. `indices` exists since 0.29.0; before, the attention backends
# computed the same with tensor operations (`mamba_get_block_table_tensor`).
KERNEL_NAMES = {
    "preprocess": "preprocess_mamba_align_fused_kernel",
    "precopy": "precopy_mamba_align_fused_kernel",
    "postprocess": "postprocess_mamba_fused_kernel",
    "indices": "get_aligned_state_indices_multi_group_kernel",
}
KERNEL_SINCE = {"preprocess": "0.25.0", "precopy": "0.25.0", "postprocess": "0.25.0", "indices": "0.29.0"}

# Host-side stand-in for the `indices` kernel, in v1/attention/backends/utils.py.
INDICES_FUNCTION = "mamba_get_block_table_tensor"

_STATES = {
    "block_table_ptrs_ptr": "binding.copy_table_ptrs",
    "block_table_stride_req": "binding.table_row_stride",
    "state_base_addrs_ptr": "binding.state_base_addrs",
    "state_block_strides_ptr": "binding.state_block_strides",
    "state_elem_sizes_ptr": "binding.state_elem_sizes",
    "state_inner_sizes_ptr": "binding.state_inner_sizes",
    "state_conv_widths_ptr": "binding.state_conv_widths",
    "state_group_indices_ptr": "binding.state_group_indices",
    "state_dim_row_count_ptr": "binding.state_dim_row_count",
    "state_dim_row_stride_ptr": "binding.state_dim_row_stride",
    "idx_mapping_ptr": "idx_mapping",
    "num_reqs": "num_rows",
    "COPY_BLOCK_SIZE": "meta.copy_block_size",
    "CONV_STATE_DIM_FIRST": "dim_first",
    "HAS_IDX_MAPPING": "has_idx_mapping",
    "TEMPORAL_TILES": "tiles",
}

PARAMETERS: dict[str, dict[str, str]] = {
    "preprocess": {
        "idx_mapping_ptr": "idx_mapping",
        "state_idx_ptr": "slots.state_idx",
        "num_computed_tokens_ptr": "slots.num_computed",
        "query_start_loc_ptr": "query_start_loc",
        "num_accepted_tokens_ptr": "slots.num_accepted",
        "src_col_ptr": "slots.src_col",
        "src_off_ptr": "slots.src_off",
        "num_reqs": "num_rows",
        "BLOCK_SIZE": "meta.preprocess_rows",
        "MAMBA_BLOCK_SIZE": "block_size",
        "HAS_IDX_MAPPING": "has_idx_mapping",
    },
    "precopy": _STATES
    | {
        "mamba_state_idx_ptr": "slots.state_idx",
        "src_col_ptr": "slots.src_col",
        "token_bias_ptr": "slots.src_off",
        "ZERO_TEMPORAL_TOKEN_BIAS": "replays_states",
    },
    "postprocess": _STATES
    | {
        "num_accepted_tokens_ptr": "accepted_read",
        "mamba_state_idx_ptr": "slots.state_idx",
        "num_scheduled_tokens_ptr": "num_scheduled",
        "num_computed_tokens_ptr": "num_computed",
        "num_draft_tokens_ptr": "num_drafts",
        "num_accepted_tokens_out_ptr": "accepted_written",
        "block_size": "block_size",
        "PRECOMPUTED_NEW_COMPUTED": "has_new_total",
        "SKIP_TEMPORAL_STATE_COPY": "replays_states",
    },
    "indices": {
        "block_table_ptrs_ptr": "index_table_ptrs",
        "seq_lens_ptr": "seq_lens",
        "state_indices_ptr": "out",
        "block_table_stride_req": "binding.table_row_stride",
        "seq_lens_stride": "seq_lens_stride",
        "state_indices_stride_0": "out_stride_group",
        "state_indices_stride_1": "out_stride_row",
        "state_indices_stride_2": "out_stride_slot",
        "num_requests": "num_rows",
        "CACHE_BLOCK_SIZE": "block_size",
        "NUM_GROUPS": "num_groups",
        "BLOCK_GROUPS": "num_groups_padded",
        "NUM_STATE_SLOTS": "num_state_slots",
        "BLOCK_STATE_SLOTS": "num_state_slots_padded",
        "BLOCK_ROWS": "meta.index_rows",
    },
}

# Without these a kernel of the right name serves runner V1 only, as in 0.22.0 to 0.24.0.
NEEDED_FOR_V2 = {
    "preprocess": ("idx_mapping_ptr",),
    "precopy": ("idx_mapping_ptr",),
    "postprocess": ("idx_mapping_ptr", "PRECOMPUTED_NEW_COMPUTED"),
    "indices": (),
}
