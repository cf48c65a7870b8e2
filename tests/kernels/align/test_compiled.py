"""Every kernel compiles for CUDA, which needs no GPU: what the interpreter accepts, the compiler may not."""

import subprocess
import sys

import pytest

pytest.importorskip("triton.backends.nvidia")

COMPILE = """
import inspect, sys, importlib
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

INT64 = {
    "idx_mapping", "table_ptrs", "persistent_ptrs", "gathered_ptrs", "states", "unit_starts", "unit_salts", "hashes",
    "activation_in", "damage", "sampled", "last_token", "streams", "weights", "prints",
    "expected",
}
SCALARS = {
    "num_rows", "num_rows_padded", "num_tiles", "draw_from", "n", "num_writes", "max_blocks", "max_model_len",
    "state_indices_rows", "byte", "value", "length", "size", "number", "num_universes", "frame",
    "layers", "num_groups", "num_states", "num_units", "num_columns", "window", "max_bytes",
}
NUMBERS = {
    "TILES": 16, "TILE_STEPS": 4, "COPY_BLOCK": 512, "WIDTH_BLOCK": 8, "ROW_BLOCK": 256, "ROWS": 8,
    "NUM_COLUMNS": 3, "TOKENS": 64, "MAX_BYTES": 24, "BYTES": 16,
    "POSITIONS": 16, "COUNT": 5, "COUNTS": 128, "CHUNK": 1024, "LAYERS": 2, "WIDTH": 5, "MAX_ROW_BYTES": 64,
}

def compile_kernel(module, name, flags):
    kernel = getattr(importlib.import_module("stalerow.kernels." + module), name)
    signature, constants = {}, {}
    for parameter in inspect.signature(kernel.fn).parameters.values():
        p, scalar_blocks = parameter.name, module.startswith(("own.forward", "own.blocks"))
        if p.isupper():
            signature[p], constants[p] = "constexpr", flags.get(p, NUMBERS.get(p, 4))
        elif "int64" in str(parameter.annotation):
            signature[p] = "i64"
        elif p in SCALARS or (p == "num_blocks" and scalar_blocks):
            signature[p] = "i32"
        else:
            signature[p] = "*i64" if p in INT64 else "*u8" if p in ("pool", "kept", "shadow") else "*i32"
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    triton.compile(source, target=GPUTarget("cuda", 90, 32))

for line in sys.argv[1:]:
    print(line, flush=True)
    module, name, *flags = line.split()
    compile_kernel(module, name, {flag.lstrip("-"): not flag.startswith("-") for flag in flags})
"""

COPY = "HAS_IDX_MAPPING ROW_IS_SLOT"
KERNELS = [
    f"align.precopy_triton precopy_kernel {COPY} CHANNELS_FIRST",
    f"align.precopy_triton precopy_kernel {COPY} -CHANNELS_FIRST",
    f"align.postprocess_triton postprocess_kernel {COPY} CHANNELS_FIRST -HAS_COUNTS",
    "align.postprocess_triton postprocess_kernel -HAS_IDX_MAPPING -ROW_IS_SLOT -CHANNELS_FIRST HAS_COUNTS",
    "align.preprocess_triton preprocess_kernel",
    "align.indices_triton aligned_indices_kernel",
    "own.tables_triton apply_writes_kernel",
    "own.tables_triton gather_kernel",
    "own.update_triton seed_slots_kernel",
    "own.update_triton seq_lens_kernel",
    "own.update_triton post_update_kernel HAS_QUERY_LEN",
    "own.update_triton advance_computed_kernel",
    "own.update_triton set_accepted_kernel HAS_SAMPLED",
    "own.blocks_triton pages_kernel COPY",
    "own.blocks_triton pages_kernel -COPY",
    "own.forward_triton_read read_states_kernel",
    "own.forward_triton_read read_kv_kernel TORN",
    "own.forward_triton_write write_states_kernel",
    "own.forward_triton_write write_kv_kernel",
    "own.universes_triton prefix_hashes_kernel",
    "own.universes_triton move_states_kernel",
    "own.universes_triton check_counts_kernel",
    "own.universes_triton check_damage_kernel",
    "own.universes_triton compare_kernel PRINT",
    "own.universes_triton compare_kernel -PRINT",
]


def test_all_kernels_compile_for_cuda(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", COMPILE, *KERNELS]
    env = {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + [done.stderr[-1500:]]
