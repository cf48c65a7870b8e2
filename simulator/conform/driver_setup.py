"""What `driver` needs before it imports vLLM: the tiny model, the options of a run, and packages to hide.

Imports nothing of this project: helper processes that vLLM starts load it as a file.
"""

import importlib.util
import sys
from typing import Any

MODEL = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "torch_dtype": "bfloat16",
    "vocab_size": 1024,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 16,
    "max_position_embeddings": 4096,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "mlp_only_layers": [],
    "partial_rotary_factor": 0.25,
    "rope_theta": 10000000,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DEFAULTS = {
    "P": 1,
    "K": 0,
    "drafter": "mtp",
    "drafts_per_batch_size": [],
    "block_size": 16,
    "attention_block_size": None,
    "num_blocks": 64,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
    "max_model_len": 256,
    "prefix_match_unit": None,
    "retention_interval": 0,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "max_num_active_seqs": None,
    "prefill_schedule_interval": 1,
    "cache_aware_admission_window": 0,
    "cache_aware_admission_threshold": 0.5,
    "reserve_full_isl": True,
    "watermark": 0.0,
    "policy": "fcfs",
    "shared_prefix_ckpt": False,
    "disable_eagle_block_drop": False,
    "lookahead_hashes": True,
    "num_prefill_checkpoint_blocks": 0,
    "prefill_checkpoint_alignment": None,
    "marks_draft_group": True,
    "asynchronous": True,
    "recurrent_specs": 1,
    "n_gdn": 6,
    "n_fa": 2,
    "n_swa": 0,
    "sliding_window": 0,
    "accept_seed": 0,
    "accept_prob": 0.6,
    "steps": 400,
    # [kind, block size, label of its state shapes] of each group, instead of grouping made-up layers.
    "groups": None,
}


def hide_unloadable_packages() -> None:
    """Let vLLM take torchvision and friends for absent: CPU environments carry unloadable builds."""
    hidden = ("torchvision", "torchaudio", "torchcodec")
    find_spec = importlib.util.find_spec

    def without_hidden(name: str, package: str | None = None) -> Any:
        return None if name.split(".")[0] in hidden else find_spec(name, package)

    class Refuse:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name.split(".")[0] in hidden:
                raise ModuleNotFoundError(f"{name} is hidden", name=name)

    importlib.util.find_spec = without_hidden
    sys.meta_path.insert(0, Refuse())
