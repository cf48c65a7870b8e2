"""A small engine of our own, written to disk: vLLM's file layout, kernel names and parameters, and no more.

`write_engine` lays out a package whose every module raises when imported, with kernels that really copy.
Keyword arguments replace single decisions of kernels and runner, which is what the tests of extraction and
convention vary.
"""

from __future__ import annotations

from pathlib import Path

KERNEL_FILE = "v1/worker/mamba_utils.py"
CALLER_FILE = "v1/worker/gpu/model_states/mamba_hybrid.py"
TABLES_FILE = "v1/worker/gpu/block_table.py"
INDICES_FILE = "v1/attention/backends/utils.py"

_POISON = 'raise AssertionError("the engine was imported")\n'

_STATES = (
    "block_table_ptrs_ptr, block_table_stride_req: tl.int64, state_base_addrs_ptr, state_block_strides_ptr, "
    "state_elem_sizes_ptr, state_inner_sizes_ptr, state_conv_widths_ptr, state_group_indices_ptr, "
    "state_dim_row_count_ptr, state_dim_row_stride_ptr"
)
_HANDED = _STATES.replace(": tl.int64", "")

_SLOT_OF_PROGRAM = """    batch_idx = tl.program_id(0)
    if tl.program_id(2) > 0:
        return
    if HAS_IDX_MAPPING:
        req_idx = tl.load(idx_mapping_ptr + batch_idx)
        if req_idx < 0:
            return
    else:
        req_idx = batch_idx
"""

KERNELS = f"""{_POISON}
import os
from vllm.config import CacheConfig
from vllm.triton_utils import tl, triton

_SHARES = 4
_STEP = tl.constexpr(64)
_UNRELATED = CacheConfig(os.environ)


@triton.jit
def _move_bytes(source, target, size, STEP: tl.constexpr):
    lanes = tl.arange(0, STEP)
    for start in range(0, size, STEP):
        inside = (start + lanes) < size
        data = tl.load((source + start + lanes).to(tl.pointer_type(tl.uint8)), mask=inside)
        tl.store((target + start + lanes).to(tl.pointer_type(tl.uint8)), data, mask=inside)


@triton.jit
def _move_state(state, table_row, source_col, target_col, bias, {_STATES}, DIM_FIRST: tl.constexpr):
    base = tl.load(state_base_addrs_ptr + state)
    stride = tl.load(state_block_strides_ptr + state)
    element = tl.load(state_elem_sizes_ptr + state)
    token = tl.load(state_inner_sizes_ptr + state) * element
    width = tl.load(state_conv_widths_ptr + state)
    group = tl.load(state_group_indices_ptr + state)
    table = tl.load(block_table_ptrs_ptr + group).to(tl.pointer_type(tl.int32))
    line = table + table_row * block_table_stride_req
    target = base + tl.load(line + target_col).to(tl.int64) * stride
    if width == 0:
        source = base + tl.load(line + source_col + bias).to(tl.int64) * stride
        _move_bytes(source, target, token, _STEP)
        return
    source = base + tl.load(line + source_col).to(tl.int64) * stride
    if DIM_FIRST:
        between = tl.load(state_dim_row_stride_ptr + state)
        for channel in range(0, tl.load(state_dim_row_count_ptr + state)):
            first = source + channel * between
            _move_bytes(first + bias * element, target + channel * between, (width - bias) * element, _STEP)
        return
    _move_bytes(source + bias * token, target, (width - bias) * token, _STEP)


@triton.jit(do_not_specialize=["num_reqs"])
def preprocess_mamba_align_fused_kernel(
    idx_mapping_ptr, state_idx_ptr, num_computed_tokens_ptr, query_start_loc_ptr, num_accepted_tokens_ptr,
    src_col_ptr, src_off_ptr, num_reqs, BLOCK_SIZE: tl.constexpr, MAMBA_BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    used = row < num_reqs
    slot = tl.load(idx_mapping_ptr + row, mask=used, other=0)
    old = tl.load(state_idx_ptr + slot, mask=used, other=-1)
    accepted = tl.load(num_accepted_tokens_ptr + slot, mask=used, other=1)
    length = tl.load(query_start_loc_ptr + row + 1, mask=used, other=0)
    length -= tl.load(query_start_loc_ptr + row, mask=used, other=0)
    total = tl.load(num_computed_tokens_ptr + slot, mask=used, other=0) + length
    new = (total + MAMBA_BLOCK_SIZE - 1) // MAMBA_BLOCK_SIZE - 1
    tl.store(src_col_ptr + slot, old, mask=used)
    tl.store(src_off_ptr + slot, tl.maximum(accepted - 1, 0), mask=used)
    tl.store(state_idx_ptr + slot, new, mask=used)
    tl.store(num_accepted_tokens_ptr + slot, 1, mask=used & (old >= 0) & (old != new))


@triton.jit(do_not_specialize=["num_reqs"])
def precopy_mamba_align_fused_kernel(
    mamba_state_idx_ptr, src_col_ptr, token_bias_ptr, {_STATES}, idx_mapping_ptr, num_reqs,
    COPY_BLOCK_SIZE: tl.constexpr, CONV_STATE_DIM_FIRST: tl.constexpr, HAS_IDX_MAPPING: tl.constexpr = True,
    TEMPORAL_TILES: tl.constexpr = 1,
):
{_SLOT_OF_PROGRAM}    source = tl.load(src_col_ptr + req_idx)
    target = tl.load(mamba_state_idx_ptr + req_idx)
    if source < 0 or source == target:
        return
    bias = tl.load(token_bias_ptr + req_idx)
    _move_state(tl.program_id(1), PRECOPY_ROW, source, target, bias, {_HANDED}, CONV_STATE_DIM_FIRST)


@triton.jit(do_not_specialize=["num_reqs"])
def postprocess_mamba_fused_kernel(
    num_accepted_tokens_ptr, mamba_state_idx_ptr, num_scheduled_tokens_ptr, num_computed_tokens_ptr,
    num_draft_tokens_ptr, {_STATES}, num_accepted_tokens_out_ptr, idx_mapping_ptr, num_reqs,
    block_size: tl.constexpr, COPY_BLOCK_SIZE: tl.constexpr, CONV_STATE_DIM_FIRST: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr = False, PRECOMPUTED_NEW_COMPUTED: tl.constexpr = False,
    TEMPORAL_TILES: tl.constexpr = 1,
):
{_SLOT_OF_PROGRAM}    state = tl.program_id(1)
    accepted = tl.load(num_accepted_tokens_ptr + req_idx)
    running = tl.load(mamba_state_idx_ptr + req_idx)
    total = tl.load(num_computed_tokens_ptr + req_idx)
    if not PRECOMPUTED_NEW_COMPUTED:
        total += tl.load(num_scheduled_tokens_ptr + req_idx) - tl.load(num_draft_tokens_ptr + req_idx)
        total += accepted - 1
    aligned = total // block_size * block_size
    bias = aligned - (total - accepted + 1)
    if bias < 0:
        return
    target = aligned // block_size - 1
    if running == target:
        if state == 0:
            tl.store(num_accepted_tokens_out_ptr + req_idx, 1)
        if bias == 0:
            return
    table_row = POSTPROCESS_ROW
    _move_state(state, table_row, running, target, bias, {_HANDED}, CONV_STATE_DIM_FIRST)


def unrelated_helper(value):
    return value + _SHARES


class MambaSpecDecodeGPUContext:
    def initialize_from_forward_context(self, config, context, functions, block_tables, SECOND_TABLES):
        pass

    def run_fused_precopy(self, num_reqs, state_idx, src_col, bias, idx_mapping):
        precopy_mamba_align_fused_kernel[(num_reqs, self.num_states, _SHARES)](
            state_idx, src_col, bias, self.block_table_ptrs, self.stride, COPY_BLOCK_SIZE=256,
            CONV_STATE_DIM_FIRST=False, HAS_IDX_MAPPING=idx_mapping is not None, TEMPORAL_TILES=_SHARES,
        )

    def run_fused_postprocess_align(self, num_reqs, counts, state_idx, totals, idx_mapping):
        snapshot = self.num_accepted_tokens_out
        TAKE_SNAPSHOT
        postprocess_mamba_fused_kernel[(num_reqs, self.num_states, _SHARES)](
            READ_COUNTS, state_idx, None, totals, None, self.block_table_ptrs, self.stride,
            num_accepted_tokens_out_ptr=WRITE_COUNTS, HAS_IDX_MAPPING=True, PRECOMPUTED_NEW_COMPUTED=True,
        )
"""

INDICES_KERNEL = """

@triton.jit(do_not_specialize=["num_requests"])
def get_aligned_state_indices_multi_group_kernel(
    block_table_ptrs_ptr, seq_lens_ptr, state_indices_ptr, block_table_stride_req: tl.int64, seq_lens_stride,
    state_indices_stride_0: tl.int64, state_indices_stride_1: tl.int64, state_indices_stride_2: tl.int64, num_requests,
    CACHE_BLOCK_SIZE: tl.constexpr, NUM_GROUPS: tl.constexpr, NUM_STATE_SLOTS: tl.constexpr, BLOCK_ROWS: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    used = row < num_requests
    length = tl.load(seq_lens_ptr + row * seq_lens_stride, mask=used, other=1)
    first = tl.maximum((length - 1) // CACHE_BLOCK_SIZE, 0) + TOO_FAR
    for group in range(0, NUM_GROUPS):
        table = tl.load(block_table_ptrs_ptr + group).to(tl.pointer_type(tl.int32))
        for slot in range(0, NUM_STATE_SLOTS):
            block = tl.load(table + row * block_table_stride_req + first + slot, mask=used)
            place = group * state_indices_stride_0 + row * state_indices_stride_1 + slot * state_indices_stride_2
            tl.store(state_indices_ptr + place, block, mask=used)
"""

CALLER = f"""{_POISON}
class MambaHybridModelState:
    def add_request(self, index, request):
        mamba_block_size = self.cache_config.mamba_block_size
        self.state_idx[index].fill_((request.num_computed_tokens - 1) // SEED_DIVISOR)

    def BIND_IN(self, config, block_tables):
        self.context.initialize_from_forward_context(config, self.layers, self.functions, BOUND_TABLES)
"""

TABLES = f"""{_POISON}
class BlockTables:
    def gather_block_tables(self, idx_mapping, num_reqs_padded):
        num_rows = GATHERED_ROWS
        _gather_block_tables_kernel[(self.groups, num_rows)](idx_mapping, idx_mapping.shape[0])


@triton.jit
def _gather_block_tables_kernel(idx_mapping, num_reqs, target):
    batch_idx = tl.program_id(1)
    if batch_idx >= num_reqs:
        PAD_ROW
        return
"""

INDICES = f"""{_POISON}
def mamba_get_block_table_tensor(block_table, seq_lens, spec, mode):
    return block_table
"""

_CHOICES = {
    "PRECOPY_ROW": "req_idx",
    "POSTPROCESS_ROW": "req_idx",
    "SECOND_TABLES": "aligned_index_block_tables=None",
    "TAKE_SNAPSHOT": "snapshot.copy_(counts)",
    "READ_COUNTS": "snapshot",
    "WRITE_COUNTS": "counts",
    "SEED_DIVISOR": "mamba_block_size",
    "BIND_IN": "initialize_kv_cache",
    "BOUND_TABLES": "[block_tables.block_tables[g].gpu for g in self.groups]",
    "GATHERED_ROWS": "max(num_reqs_padded, self._num_dirty_rows)",
    "PAD_ROW": "tl.store(target + batch_idx, 0)",
}

# What the published releases up to 0.31.0 chose.
BATCH_ROW = {
    "PRECOPY_ROW": "batch_idx",
    "POSTPROCESS_ROW": "batch_idx if HAS_IDX_MAPPING else req_idx",
    "SECOND_TABLES": "*rest",
    "SEED_DIVISOR": "self.cache_config.block_size",
    "BIND_IN": "_ensure_align_ctx",
    "BOUND_TABLES": "[block_tables[g] for g in self.groups]",
    "GATHERED_ROWS": "num_reqs_padded",
}


def kernels_text(**choices: str) -> str:
    """The text of the synthetic ``mamba_utils.py``."""
    return _choose(KERNELS, choices)


def with_indices(too_far: int) -> str:
    """The same with a kernel for the aligned indices, which begins so many columns too far to the right."""
    return kernels_text() + INDICES_KERNEL.replace("TOO_FAR", str(too_far))


def write_engine(root: Path, package: str = "vllm", **choices: str) -> Path:
    """Write the engine as `root`/`package` and return `root`."""
    files = {KERNEL_FILE: KERNELS, CALLER_FILE: CALLER, TABLES_FILE: TABLES, INDICES_FILE: INDICES}
    for relative, text in files.items():
        path = root / package / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_choose(text, choices), encoding="utf-8")
        for folder in path.parents:
            if folder == root:
                break
            (folder / "__init__.py").write_text(_POISON, encoding="utf-8")
    return root


def _choose(text: str, choices: dict[str, str]) -> str:
    unknown = choices.keys() - _CHOICES
    assert not unknown, f"no such choice: {sorted(unknown)}"
    for name, value in (_CHOICES | choices).items():
        text = text.replace(name, value)
    return text
