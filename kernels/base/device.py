"""Where arrays live and who runs the kernels: NumPy, the host's processor, Triton's interpreter, or a CUDA device.

A `Backend` allocates arrays and moves bytes between the host and them; kernel sets and the memory objects are
built on one. This is the only module that decides how Triton is imported: the interpreter must be chosen
before Triton is first imported, so the choice is made here, once, or refused with one clear error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""`np.ndarray` on the NumPy backend, `torch.Tensor` on the Triton ones."""

HostArray: TypeAlias = NDArray[Any]


class DeviceError(ValueError):
    """The device asked for cannot be had in this process; the message says why and what to do."""


class Backend(Protocol):
    """Arrays of one device. Shapes are in elements, `dtype` is a NumPy name such as "int32"."""

    name: str
    on_host: bool
    """Whether arrays are in host memory, so that `to_host` gives views."""

    def alloc(self, shape: int | Sequence[int], dtype: str, fill: int = 0) -> Array:
        """A new array filled with `fill`."""

    def to_host(self, array: Array) -> HostArray:
        """The array's contents: a zero-copy view where the array is in host memory, else a copy."""

    def from_host(self, array: HostArray) -> Array:
        """A new array on the device with the contents of `array`."""

    def write(self, array: Array, values: HostArray) -> None:
        """`array[...] = values`, in stream order."""

    def address(self, array: Array) -> int:
        """Address of the first element as an unsigned 64-bit integer."""

    def synchronize(self) -> None:
        """Wait until everything launched so far has run."""


class NumpyBackend:
    """Host arrays; the executable specifications run on them."""

    name = "numpy"
    on_host = True

    def alloc(self, shape: int | Sequence[int], dtype: str, fill: int = 0) -> HostArray:
        return np.full(shape, fill, dtype=dtype)

    def to_host(self, array: HostArray) -> HostArray:
        return array

    def from_host(self, array: HostArray) -> HostArray:
        return np.array(array)

    def write(self, array: HostArray, values: HostArray) -> None:
        array[...] = values

    def address(self, array: HostArray) -> int:
        return int(array.__array_interface__["data"][0])

    def synchronize(self) -> None:
        return


class TorchBackend:
    """Tensors on the host (kernels compiled for it, or interpreted) or on a CUDA device.

    `name` is "triton-cpu", "triton-interpreter" or "triton-cuda".
    """

    def __init__(self, name: str) -> None:
        self._torch = importlib.import_module("torch")
        self.name = name
        self.on_host = name != "triton-cuda"
        self.device = "cpu" if self.on_host else "cuda"

    def alloc(self, shape: int | Sequence[int], dtype: str, fill: int = 0) -> Array:
        size = (shape,) if isinstance(shape, int) else tuple(shape)
        return self._torch.full(size, fill, dtype=getattr(self._torch, dtype), device=self.device)

    def to_host(self, array: Array) -> HostArray:
        host: HostArray = array.numpy() if self.on_host else array.cpu().numpy()
        return host

    def from_host(self, array: HostArray) -> Array:
        # A copy in any case: the caller may reuse its array while a queued kernel still reads ours.
        return self._torch.tensor(np.ascontiguousarray(array), device=self.device)

    def write(self, array: Array, values: HostArray) -> None:
        array.copy_(self._torch.from_numpy(np.ascontiguousarray(values, dtype=_numpy_name(array))))

    def address(self, array: Array) -> int:
        return int(array.data_ptr())

    def synchronize(self) -> None:
        if not self.on_host:
            self._torch.cuda.synchronize()


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
        importlib.import_module("stalerow.kernels.compiled.launch").install()
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


def as_int64(address: int) -> int:
    """The bit pattern of an unsigned 64-bit address as a signed integer, so that it fits an int64 array.

    Addresses at or above 2**63 come out negative and come back unchanged when a kernel casts them to
    pointers.
    """
    if not 0 <= address < 1 << 64:
        raise ValueError(f"address is {address:#x}; expected an unsigned 64-bit value")
    return address - (1 << 64) if address >> 63 else address


def _numpy_name(tensor: Array) -> str:
    return str(tensor.dtype).removeprefix("torch.")
