"""Faults of padding: placeholder drafts of an admission, and rows of a captured graph that nobody runs in."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from stalerow.kernels.align.kernels import AlignKernels
from stalerow.kernels.base.binding import Binding
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.engine.policies import DraftPolicy
from stalerow.simulator.faults.base import Fault, Wrapped
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.schedule.values import Schedule


class _PlainTail(RankPolicy):
    def runs_as_decode(self, num_computed: np.ndarray, num_drafts: np.ndarray) -> np.ndarray:
        return super().runs_as_decode(num_computed, num_drafts) & (num_computed == 0)


class PaddedFirstStep(Fault):
    """The padded first step of a request whose prompt is computed but for its last token runs as a plain prefill row.

    Prefill keeps only the state after its last position, so the placeholders are absorbed for good; after a hand-off
    from another instance, or a full prefix hit, every request begins like this. Needs a prefix hit of all but the last
    token beside running decodes.
    """

    name = id = "padded-first-step"
    summary = "placeholder drafts of a padded first step are absorbed into the state"
    reports = ("vllm#50591", "vllm#55178")
    expected = ("wrong position", "torn copy")
    launches = ("forward",)
    rank = _PlainTail

    def needs(self, schedule: Schedule) -> bool:
        return schedule.pipeline.drafts > 0


class _CutPadding(DraftPolicy):
    def keeps_cut_padding(self) -> bool:
        return True


class ThresholdAssert(Fault):
    """The scheduler pads an admission to a decode's width, cuts it to the chunk threshold, and asserts the width.

    Where chunks are aligned to recurrent blocks a padding that was cut is dropped; without recurrent groups 0.32, 0.33
    and 0.34 go on and their assertion kills the engine. The fault puts their path into a hybrid engine. Needs a chunk
    threshold of at most K tokens, and a request with one token left admitted beside decodes.
    """

    name = id = "threshold-assert"
    summary = "a padded admission that the chunk threshold cuts fails the scheduler's own assertion"
    reports = ()
    expected = ("broken rule",)
    launches = ("schedule",)
    says = "padded to"
    engine: ClassVar = {"drafts": _CutPadding}

    def needs(self, schedule: Schedule) -> bool:
        threshold = schedule.limits.long_prefill_token_threshold
        return 0 < threshold <= schedule.pipeline.drafts


class _KeepsPaddedRows(Wrapped):
    """Align kernels that leave the indices of rows past the batch as an earlier batch had them."""

    def __init__(self, inner: AlignKernels, kernels: KernelSet) -> None:
        super().__init__(inner)
        self._backend = kernels.backend

    def aligned_indices(self, binding: Binding, seq_lens: Any, num_rows_padded: int, block_size: int, out: Any) -> None:
        before = np.array(self._backend.to_host(out))
        self.inner.aligned_indices(binding, seq_lens, num_rows_padded, block_size, out)
        lengths = self._backend.to_host(seq_lens)[:num_rows_padded]
        padded = np.flatnonzero(lengths == 0)
        if padded.size:
            after = np.array(self._backend.to_host(out))
            after[:, padded] = before[:, padded]
            self._backend.write(out, after)


class PaddedIndices(Fault):
    """Padded rows of a captured decode graph keep the state indices of an earlier, larger batch.

    The graph runs them like any other row, and they write into blocks of requests that are not in the batch. Needs
    graph sizes and a batch that shrinks.
    """

    name = id = "padded-indices"
    summary = "padded graph rows keep an earlier batch's state indices"
    reports = ("vllm-ascend#12040",)
    expected = ("dead binding", "stale slot", "use after free", "cross-request copy", "wrong position")
    launches = ("indices", "forward")

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        wrapped: Any = _KeepsPaddedRows(kernels.align, kernels)
        return wrapped

    def needs(self, schedule: Schedule) -> bool:
        return bool(schedule.limits.graph_sizes)
