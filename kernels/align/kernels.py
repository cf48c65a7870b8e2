"""The kernels under test, as one object: what a kernel set has to supply, and the NumPy specification of it.

`AlignKernels` is the protocol that the reference, the project's Triton kernels (`align_triton`) and an
engine's own kernels (`external`) share. A rank calls them in stream order: preprocess, precopy, aligned
indices, forward, and postprocess once the step's acceptance is known.
"""

from __future__ import annotations

from typing import Protocol

from stalerow.kernels.align.indices import aligned_indices
from stalerow.kernels.align.postprocess import StepCounts, postprocess
from stalerow.kernels.align.precopy import precopy
from stalerow.kernels.align.preprocess import preprocess
from stalerow.kernels.base.binding import Binding
from stalerow.kernels.base.device import Array, HostArray
from stalerow.kernels.base.memory import SlotState

__all__ = ["AlignKernels", "ReferenceAlign", "StepCounts"]


class AlignKernels(Protocol):
    """The state-copy kernels of vLLM's `mamba_cache_mode="align"`. Array shapes are those of the references."""

    name: str
    reads_slot_tables: bool
    """True: copies look up the persistent tables by slot (vLLM 0.32 and later). False: the gathered tables by
    batch row (0.30 and earlier)."""

    def preprocess(
        self, slots: SlotState, idx_mapping: Array, query_start_loc: Array, num_rows: int, block_size: int
    ) -> None:
        """See `stalerow.kernels.align.preprocess.preprocess`."""

    def precopy(self, slots: SlotState, binding: Binding, idx_mapping: Array | None, num_rows: int) -> None:
        """See `stalerow.kernels.align.precopy.precopy`."""

    def postprocess(
        self,
        slots: SlotState,
        binding: Binding,
        idx_mapping: Array | None,
        num_rows: int,
        block_size: int,
        counts: StepCounts | None = None,
    ) -> None:
        """See `stalerow.kernels.align.postprocess.postprocess`."""

    def aligned_indices(
        self, binding: Binding, seq_lens: Array, num_rows_padded: int, block_size: int, out: Array
    ) -> None:
        """See `stalerow.kernels.align.indices.aligned_indices`."""


class ReferenceAlign:
    """The executable specification, on host arrays."""

    def __init__(self, row_is_slot: bool) -> None:
        self.name = "reference:req-idx" if row_is_slot else "reference:batch-row"
        self.reads_slot_tables = row_is_slot

    def preprocess(
        self,
        slots: SlotState,
        idx_mapping: HostArray,
        query_start_loc: HostArray,
        num_rows: int,
        block_size: int,
    ) -> None:
        preprocess(slots, idx_mapping, query_start_loc, num_rows, block_size)

    def precopy(self, slots: SlotState, binding: Binding, idx_mapping: HostArray | None, num_rows: int) -> None:
        precopy(slots, binding, idx_mapping, num_rows, self.reads_slot_tables)

    def postprocess(
        self,
        slots: SlotState,
        binding: Binding,
        idx_mapping: HostArray | None,
        num_rows: int,
        block_size: int,
        counts: StepCounts | None = None,
    ) -> None:
        postprocess(slots, binding, idx_mapping, num_rows, block_size, counts, self.reads_slot_tables)

    def aligned_indices(
        self, binding: Binding, seq_lens: HostArray, num_rows_padded: int, block_size: int, out: HostArray
    ) -> None:
        aligned_indices(binding, seq_lens, num_rows_padded, block_size, out)
