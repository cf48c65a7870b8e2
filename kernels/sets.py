"""Names to kernel sets: the one place where a user's `--kernels` becomes code that runs.

The project's own sets are in `own.sets`. Names that look like a release ("vllm==0.32.0") or a source file go to
`stalerow.kernels.external`.
"""

from __future__ import annotations

import difflib
import os

from stalerow.kernels.own.sets import KERNEL_SETS, ROW_IS_SLOT, KernelSet, own_set

__all__ = [
    "KERNEL_SETS",
    "ROW_IS_SLOT",
    "KernelSet",
    "UnknownKernelSet",
    "kernel_set",
    "looks_external",
    "refuse_unknown",
]


class UnknownKernelSet(ValueError):
    """A kernel set's name is neither built in nor something an external loader takes."""


def kernel_set(name: str, device: str = "auto") -> KernelSet:
    """The kernel set called `name` on `device` (one of `stalerow.kernels.own.devices.DEVICES`).

    Raises UnknownKernelSet for a name that is not known, DeviceError if the device cannot be had.
    """
    if name in KERNEL_SETS:
        return own_set(name, device)
    if looks_external(name):
        from stalerow.kernels.external import load

        return load(name, device)
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
