"""Names to kernel sets: the one place where a user's `--kernels` becomes code that runs.

"req-idx" and "batch-row" are the project's Triton kernels, one source, told apart by the table row that
copies look up and the tables they are bound to. "reference:..." are their NumPy specifications. Names that
look like a release ("vllm==0.32.0") or a source file go to `stalerow.kernels.external`. Triton and torch are
imported only when a set needs them.
"""

from __future__ import annotations

import difflib
import os
from typing import NamedTuple

from stalerow.kernels.align.kernels import AlignKernels, ReferenceAlign
from stalerow.kernels.base.device import Backend, DeviceError, backend
from stalerow.kernels.own.chosen import operators
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


class UnknownKernelSet(ValueError):
    """A kernel set's name is neither built in nor something an external loader takes."""


def kernel_set(name: str, device: str = "auto") -> KernelSet:
    """The kernel set called `name` on `device` (one of `stalerow.kernels.base.device.DEVICES`).

    Raises UnknownKernelSet for a name that is not known, DeviceError if the device cannot be had.
    """
    if name.startswith(REFERENCE) and name in KERNEL_SETS:
        if device == "cuda":
            raise DeviceError(f"{name} runs on the host, but device {device!r} was asked for; use --device cpu")
        align = ReferenceAlign(ROW_IS_SLOT[name.removeprefix(REFERENCE)])
        return KernelSet(name, align, ReferenceOperators(), backend("numpy"))
    if name in ROW_IS_SLOT:
        chosen = backend(device)
        from stalerow.kernels.align.kernels_triton import TritonAlign

        return KernelSet(name, TritonAlign(ROW_IS_SLOT[name], chosen), operators(chosen), chosen)
    if looks_external(name):
        from stalerow.kernels.external import load

        loaded: KernelSet = load(name, device)
        return loaded
    raise _unknown(name)


def refuse_unknown(name: str) -> None:
    """Raise UnknownKernelSet for a name that stands for nothing."""
    if not (name in KERNEL_SETS or looks_external(name)):
        raise _unknown(name)


def _unknown(name: str) -> UnknownKernelSet:
    close = difflib.get_close_matches(name, KERNEL_SETS, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return UnknownKernelSet(
        f"unknown kernel set {name!r}: {hint}expected one of {', '.join(KERNEL_SETS)}, a release such as "
        "'vllm==0.32.0', the path of a Python source file, or MODULE:FUNCTION, which makes one"
    )


def looks_external(name: str) -> bool:
    """Whether a name stands for an engine's own kernels: a release, a checkout or a file."""
    name = name.partition("[")[0]
    has_separator = os.sep in name or (os.altsep is not None and os.altsep in name)
    return "==" in name or has_separator or name.endswith(".py") or os.path.exists(name)
