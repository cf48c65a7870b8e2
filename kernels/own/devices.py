"""Which device kernels run on: what a user may ask for, and what this process can provide.

This is the only module that decides how Triton is imported: the interpreter must be chosen before Triton is first
imported, so the choice is made here, once, or refused with one clear error.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import lru_cache

import numpy as np

from stalerow.kernels.base.device import Backend, DeviceError, NumpyBackend, TorchBackend

DEVICES = ("auto", "cpu", "interpreter", "cuda")
"""What a user may ask for. "cpu" compiles for the host, "auto" takes CUDA where there is a device."""


def backend(name: str) -> Backend:
    """The backend called `name`, or the one for a device of `DEVICES`.

    Names: "numpy", "triton-cpu", "triton-interpreter", "triton-cuda". Where Triton was imported interpreting, or
    llvmlite is missing, "cpu" and "auto" give the interpreter; the latter is said in one line. Raises DeviceError if
    the process cannot provide what was asked for.
    """
    if name == "numpy":
        return NumpyBackend()
    device = name.removeprefix("triton-")
    if device not in DEVICES:
        raise DeviceError(f"unknown device {name!r}; expected one of {', '.join(map(repr, DEVICES))}")
    if device in ("auto", "cuda"):
        available = importlib.import_module("torch").cuda.is_available() and not (device == "auto" and _interpreting())
        if device == "cuda" and not available:
            raise DeviceError("device 'cuda' asked for, but torch sees no CUDA device; use --device cpu")
        device = "cuda" if available else "cpu"
    if device == "cpu" and (_interpreting() or not _compiler_found()):
        if name == "triton-cpu":
            raise DeviceError(
                "kernels cannot be compiled for the host here: unset TRITON_INTERPRET, or pip install llvmlite"
            )
        device = "interpreter"
    _choose_interpreter(device == "interpreter")
    if device == "cpu":
        from stalerow.kernels.compiled.launch import install

        install()
    return TorchBackend(f"triton-{device}")


def _interpreting() -> bool:
    """Whether this process interprets kernels, as Triton was imported or as the environment says."""
    if "triton" in sys.modules:
        return bool(importlib.import_module("triton").knobs.runtime.interpret)
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "y", "yes")


@lru_cache(maxsize=1)
def _compiler_found() -> bool:
    """Whether kernels can be compiled for the host; says so once where they cannot."""
    try:
        importlib.import_module("llvmlite.binding")
    except (ImportError, OSError) as error:
        print(f"kernels are interpreted, which is 15 times slower: {error} (pip install llvmlite)", file=sys.stderr)
        return False
    return True


def _refuse_old_interpreter() -> None:
    """Triton 3.6's interpreter takes loop bounds from one-element arrays, which NumPy 2.4 no longer allows."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        triton = tuple(int(part) for part in version("triton").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return
    if triton < (3, 7) and tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 4):
        raise DeviceError(
            f"triton {version('triton')} cannot interpret kernels with NumPy {np.__version__}; "
            "install 'numpy<2.4' or a newer triton"
        )


def _choose_interpreter(wanted: bool) -> None:
    """Make Triton's `@jit` interpret (or compile) from now on, or refuse if it was imported the other way."""
    if wanted:
        _refuse_old_interpreter()
    if "triton" in sys.modules:
        actual = bool(importlib.import_module("triton").knobs.runtime.interpret)
        if actual != wanted:
            is_now, remedy = ("interpreting", "unset") if actual else ("compiling", "set")
            raise DeviceError(
                f"triton is already {is_now} in this process, which cannot be changed; "
                f"{remedy} TRITON_INTERPRET=1 before the first import, or use another process"
            )
    elif wanted:
        os.environ["TRITON_INTERPRET"] = "1"
    elif _interpreting():
        raise DeviceError("TRITON_INTERPRET is set, which keeps kernels on the CPU; unset it to use CUDA")
