"""The project's own kernel sets, and what every kernel set is.

"req-idx" and "batch-row" are the project's Triton kernels, one source, told apart by the table row that copies look up
and the tables they are bound to. "reference:..." are their NumPy specifications. Triton and torch are imported only
when a set needs them.
"""

from __future__ import annotations

from typing import NamedTuple

from stalerow.kernels.align.kernels import AlignKernels, ReferenceAlign
from stalerow.kernels.base.device import Backend, DeviceError
from stalerow.kernels.own.chosen import operators
from stalerow.kernels.own.devices import backend
from stalerow.kernels.own.operators import Operators, ReferenceOperators

ROW_IS_SLOT = {"req-idx": True, "batch-row": False}
REFERENCE = "reference:"
KERNEL_SETS = (*ROW_IS_SLOT, *(REFERENCE + name for name in ROW_IS_SLOT))
"""The names that need no loader."""


class KernelSet(NamedTuple):
    """Everything a rank runs on its device."""

    name: str
    align: AlignKernels
    ops: Operators
    backend: Backend


def own_set(name: str, device: str) -> KernelSet:
    """The set called `name`, one of `KERNEL_SETS`, on `device`. Raises DeviceError if that cannot be had."""
    if name.startswith(REFERENCE):
        if device == "cuda":
            raise DeviceError(f"{name} runs on the host, but device {device!r} was asked for; use --device cpu")
        align = ReferenceAlign(ROW_IS_SLOT[name.removeprefix(REFERENCE)])
        return KernelSet(name, align, ReferenceOperators(), backend("numpy"))
    chosen = backend(device)
    from stalerow.kernels.align.kernels_triton import TritonAlign

    return KernelSet(name, TritonAlign(ROW_IS_SLOT[name], chosen), operators(chosen), chosen)
