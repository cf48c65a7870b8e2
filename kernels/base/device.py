"""Where arrays live and who runs the kernels: NumPy, the host's processor, Triton's interpreter, or a CUDA device.

A `Backend` allocates arrays and moves bytes between the host and them; kernel sets and the memory objects are
built on one. Which one a process gets is decided in `kernels.own.devices`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
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
