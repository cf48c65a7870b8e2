"""The model that the worker runs: layers without weights over the worker's own cache, a head, and a drafter.

Its forward is the simulator's stand-in (`kernels.own.forward`), so memory holds the same bytes as a simulated rank's;
what each row reads and where it writes comes from the attention metadata that the worker built, and from nothing else.
Hidden states are int64 [tokens, 2]: the damage that a row carries, and which request's which position a token is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.model_executor.layers.mamba.mamba_utils import get_conv_copy_spec, get_temporal_copy_spec
from vllm.sequence import IntermediateTensors
from vllm.v1.attention.backend import AttentionBackend, AttentionMetadataBuilder
from vllm.v1.attention.backends.gdn_attn import GDNAttentionBackend
from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum
from vllm.v1.worker.gpu.spec_decode.speculator import BaseSpeculator

from stalerow.kernels.base.layout import GroupSpec
from stalerow.simulator.truth.streams import FIRST_TOKEN, VOCABULARY, mix64
from stalerow.simulator.worker.inside.watched import Stage

CERTAIN = 50.0
"""The logit of the token that the model wants; all others are 0."""

HEAD = {"conv": get_conv_copy_spec, "temporal": get_temporal_copy_spec}
TYPES = {
    ("conv", "temporal"): "GDN_ATTN",
    ("temporal",): "LINEAR",
    ("conv",): "SHORT_CONV",
    ("conv", "temporal", "temporal"): "MAMBA2",
}
"""Which of the engine's recurrent kinds stands for a layer with these states: it tells copy functions apart."""


def mamba_type(group: GroupSpec) -> Any:
    return MambaAttentionBackendEnum[TYPES[tuple(state.kind for state in group.states)]]


class KvBuilder(AttentionMetadataBuilder):  # type: ignore[misc]
    """An attention layer gets the common metadata as it is."""

    def __init__(self, kv_cache_spec: Any, layer_names: Any, vllm_config: Any, device: Any, **_: Any) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        return common_attn_metadata


class KvBackend(AttentionBackend):  # type: ignore[misc]
    get_name = staticmethod(lambda: "STALEROW_KV")
    get_impl_cls = staticmethod(lambda: None)
    get_builder_cls = staticmethod(lambda: KvBuilder)
    get_supported_kernel_block_sizes = staticmethod(lambda *_: [1 << i for i in range(12)])

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        return num_blocks, 2, block_size, num_kv_heads, head_size


class KvLayer(AttentionLayerBase):  # type: ignore[misc]
    impl = kv_sharing_target_layer_name = kv_cache = None
    num_heads = 1

    def __init__(self, name: str, spec: Any) -> None:
        self.prefix = self.layer_name = name
        self.spec = spec

    def get_attn_backend(self) -> Any:
        return KvBackend

    def get_kv_cache_spec(self, vllm_config: Any) -> Any:
        return self.spec


class RecurrentLayer(MambaBase):  # type: ignore[misc]
    kv_cache = None

    def __init__(self, name: str, spec: Any) -> None:
        self.prefix = self.layer_name = name
        self.spec = spec

    @property
    def mamba_type(self) -> Any:
        return self.spec.mamba_type

    def get_attn_backend(self) -> Any:
        return GDNAttentionBackend

    def get_state_shape(self) -> Any:
        return self.spec.shapes

    def get_state_dtype(self) -> Any:
        return self.spec.dtypes

    def get_kv_cache_spec(self, vllm_config: Any) -> Any:
        return self.spec


class Model(nn.Module):  # type: ignore[misc]
    """One rank's part of the model."""

    is_hybrid = has_inner_state = supports_pp = True

    def __init__(self, rank: Stage, vocabulary: int) -> None:
        super().__init__()
        self.rank, self.vocabulary = [rank], vocabulary

    @classmethod
    def get_mamba_state_copy_funcs(cls, types: Any) -> Any:
        kinds = {MambaAttentionBackendEnum[name]: states for states, name in TYPES.items()}
        return {t: tuple(HEAD[kind] for kind in kinds[t]) for t in types}

    def make_empty_intermediate_tensors(self, batch_size: int, dtype: Any, device: Any) -> Any:
        return IntermediateTensors({"hidden": torch.zeros(batch_size, 2, dtype=torch.int64, device=device)})

    def forward(self, input_ids: Any = None, positions: Any = None, intermediate_tensors: Any = None, **_: Any) -> Any:
        (rank,) = self.rank
        hidden = torch.zeros(len(positions), 2, dtype=torch.int64)
        arriving = None if intermediate_tensors is None else intermediate_tensors["hidden"]
        rank.forward(get_forward_context().attn_metadata, input_ids, positions, arriving, hidden)
        return hidden if rank.is_last else IntermediateTensors({"hidden": hidden})

    def compute_logits(self, hidden: Any) -> Any:
        (rank,) = self.rank
        logits = torch.zeros(len(hidden), self.vocabulary, dtype=torch.float32)
        for row, (damage, where) in zip(logits, hidden.tolist()):
            row[wanted(rank, damage, where)] = CERTAIN
        return logits


def place(number: int, position: int) -> int:
    """Position `position` of request number `number` as one integer; 0 is no request's."""
    return (number + 1 << 32) | position


def wanted(rank: Stage, damage: int, where: int) -> int:
    """The token that follows a place: the true one, or another one if the row is damaged."""
    number, position = (where >> 32) - 1, where & 0xFFFFFFFF
    if number < 0:
        return FIRST_TOKEN
    true = rank.truth.token(number, position + 1)
    if not damage:
        return true
    return FIRST_TOKEN + (true - FIRST_TOKEN + 1 + mix64(damage) % (VOCABULARY - 1)) % VOCABULARY


class Drafter(BaseSpeculator):  # type: ignore[misc]
    """Proposes the true next tokens up to the count that the schedule lets the model accept, then wrong ones."""

    num_query_per_req, num_extra_query_per_req = 1, 0
    supports_mm_inputs = enable_adaptive_verification = False
    draft_logits = model = pcp_manager = None

    def __init__(self, rank: Stage, drafts: int) -> None:
        self._rank, self._drafts = rank, drafts
        self.attn_groups: list[Any] = []

    def capture(self, *_: Any, **__: Any) -> None:
        """There is no graph, and nothing is kept per request."""

    init_cudagraph_manager = capture

    def propose(self, input_batch: Any, *_: Any, dummy_run: bool = False, **__: Any) -> Any:
        if dummy_run:
            return torch.zeros(len(input_batch.req_ids), self._drafts, dtype=torch.int64)
        rows = [self._rank.truth.drafts(self._rank.step, request) for request in input_batch.req_ids]
        return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), self._drafts)
