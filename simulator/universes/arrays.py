"""The few array operations that lockstep execution needs beside kernels, on NumPy arrays and on torch tensors."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from stalerow.kernels.base.device import Array, Backend, HostArray
from stalerow.kernels.own.universes import NEVER


class Arrays(Protocol):
    """Shapes follow NumPy.

    `upload` makes a device array; `least` lowers `into[universe[i]]` to `number` where `wrong[i]`; `starts` are
    exclusive sums along the last axis, one more than there are lengths; `along` is `take_along_axis` in the last axis.
    """

    def upload(self, values: HostArray) -> Array: ...
    def least(self, into: Array, universe: Array, wrong: Array, number: int) -> None: ...
    def starts(self, lengths: Array) -> Array: ...
    def swapped(self, array: Array) -> Array: ...
    def along(self, array: Array, index: Array) -> Array: ...
    def any(self, array: Array, axes: tuple[int, ...]) -> Array: ...
    def total(self, array: Array, axes: tuple[int, ...]) -> Array: ...
    def stream(self) -> Any: ...
    def on(self, stream: Any) -> AbstractContextManager[Any]: ...
    def event(self, stream: Any) -> Any: ...
    def wait(self, stream: Any, event: Any) -> None: ...


class NumpyArrays:
    """Everything happens at once, so streams and events are None."""

    def upload(self, values: HostArray) -> HostArray:
        return values

    def least(self, into: HostArray, universe: HostArray, wrong: HostArray, number: int) -> None:
        if wrong.any():
            np.minimum.at(into, universe[wrong], number)

    def starts(self, lengths: HostArray) -> HostArray:
        found = np.zeros((*lengths.shape[:-1], lengths.shape[-1] + 1), dtype=np.int64)
        np.cumsum(lengths, axis=-1, out=found[..., 1:])
        return found

    def swapped(self, array: HostArray) -> HostArray:
        return np.ascontiguousarray(array.T)

    def along(self, array: HostArray, index: HostArray) -> HostArray:
        return np.take_along_axis(array, index, axis=-1)

    def any(self, array: HostArray, axes: tuple[int, ...]) -> HostArray:
        found: HostArray = np.asarray(array.any(axis=axes))
        return found

    def total(self, array: HostArray, axes: tuple[int, ...]) -> HostArray:
        found: HostArray = array.sum(axis=axes)
        return found

    def stream(self) -> None:
        return None

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        return nullcontext()

    def event(self, stream: Any) -> None:
        return None

    def wait(self, stream: Any, event: Any) -> None:
        return None


class TorchArrays:
    """Tensors on the backend's device; real streams and events on CUDA."""

    def __init__(self, backend: Any) -> None:
        self._torch = importlib.import_module("torch")
        self._backend = backend
        self._device = backend.device
        self._cuda = self._device != "cpu"

    def upload(self, values: HostArray) -> Array:
        tensor = self._torch.from_numpy(np.ascontiguousarray(values))
        return tensor.to(self._device, copy=True)

    def least(self, into: Array, universe: Array, wrong: Array, number: int) -> None:
        numbers = self._torch.where(wrong, number, NEVER).to(into.dtype)
        into.scatter_reduce_(0, universe, numbers, "amin")

    def starts(self, lengths: Array) -> Array:
        return self._torch.nn.functional.pad(lengths.cumsum(-1), (1, 0))

    def swapped(self, array: Array) -> Array:
        return array.t().contiguous()

    def along(self, array: Array, index: Array) -> Array:
        return array.gather(-1, index)

    def any(self, array: Array, axes: tuple[int, ...]) -> Array:
        return self._torch.any(array, dim=axes) if axes else array

    def total(self, array: Array, axes: tuple[int, ...]) -> Array:
        return array.sum(dim=axes)

    def stream(self) -> Any:
        return self._torch.cuda.Stream() if self._cuda else None

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        return self._torch.cuda.stream(stream) if self._cuda else nullcontext()

    def event(self, stream: Any) -> Any:
        """An event that is reached when everything on the stream so far has run."""
        return stream.record_event() if self._cuda else None

    def wait(self, stream: Any, event: Any) -> None:
        if self._cuda and event is not None:
            stream.wait_event(event)


def arrays(backend: Backend) -> Arrays:
    """The operations on `backend`'s arrays."""
    return NumpyArrays() if backend.name == "numpy" else TorchArrays(backend)
