"""A launch of an unmodified `@triton.jit` function on host tensors, as native code.

`install` puts this behind `kernel[grid](...)`, for launches whose tensors lie in host memory; others go on to Triton.
What a launch may touch are the tensors that it is given, and what those that hold addresses were said to reach
(`stalerow.kernels.base.memory.reaches`).
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from triton.runtime.jit import JITFunction

from stalerow.kernels.base.memory import Region, WildAccess, reached_by, region_of
from stalerow.kernels.compiled import cache, interleave
from stalerow.kernels.compiled.errors import KernelAssertion
from stalerow.kernels.compiled.interleave import Interleaver
from stalerow.kernels.compiled.native import Interleaved, Run
from stalerow.kernels.compiled.races import Log
from stalerow.kernels.compiled.sites import FAILURE_WORDS, Signal, Site

_DTYPES = {
    torch.bool: "*i1",
    torch.uint8: "*u8",
    torch.int8: "*i8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.uint16: "*u16",
    torch.uint32: "*u32",
    torch.uint64: "*u64",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}
_PACKED = {"u64": "Q", "fp32": "f4x", "fp64": "d"}
_OPTIONS = frozenset(
    ("num_warps", "num_stages", "num_ctas", "maxnreg", "debug", "launch_cooperative_grid", "launch_pdl")
)
"""Launch options that are no parameters: they say how a GPU runs a kernel."""


class Compiled(NamedTuple):
    """A kernel for one signature, ready to run in the one form or the other."""

    run: Run | Interleaved
    words: struct.Struct
    sites: Sequence[Site]


class _Kernel:
    """One `JITFunction`: its parameters, and what has been compiled of it."""

    def __init__(self, fn: JITFunction[Any]) -> None:
        self.fn = fn
        self.name = str(fn.__name__)
        self.parameters = [
            (p.name, p.default if p.has_default else None, p.is_constexpr, p.annotation_type) for p in fn.params
        ]
        self._position = {p.name: i for i, p in enumerate(fn.params)}
        self._required = [not p.has_default for p in fn.params]
        self.compiled: dict[tuple[Any, ...], Compiled] = {}

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters. Raises TypeError as a call would."""
        if len(args) == len(self.parameters) and not kwargs:
            return list(args)
        values: list[Any] = [default for _, default, _, _ in self.parameters]
        given = len(args)
        values[:given] = args
        missing = [*range(given, len(values))]
        if kwargs:
            for name, value in kwargs.items():
                position = self._position.get(name)
                if position is not None:
                    values[position] = value
                elif name not in _OPTIONS:
                    raise TypeError(f"{self.name}() got an unexpected keyword argument {name!r}")
            missing = [i for i in missing if self.parameters[i][0] not in kwargs]
        for i in missing:
            if self._required[i]:
                raise TypeError(f"{self.name}() is missing the argument {self.parameters[i][0]!r}")
        return values


def _kind(value: Any, annotated: str) -> str:
    """Triton's type of an argument, without its specialisation on values."""
    if annotated:
        return annotated
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return "i32"
        return "i64" if value < 1 << 63 else "u64"
    if isinstance(value, float):
        return "fp32"
    raise TypeError(f"a kernel's argument is {value!r}; expected a tensor, a number or a constexpr")


_kernels: dict[int, _Kernel] = {}


def launch(fn: JITFunction[Any], grid: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Run every program of `grid`, x fastest unless `programs_in` says otherwise.

    Raises `WildAccess` for an access outside what the launch may touch, `KernelAssertion`, `Unsupported`, and what
    Triton's front end raises for a kernel that it refuses.
    """
    kernel = _kernels.get(id(fn))
    if kernel is None:
        kernel = _kernels[id(fn)] = _Kernel(fn)
    values = kernel.bound(args, kwargs)
    key: list[Any] = []
    words: list[Any] = []
    tensors: list[Any] = []
    ranges: list[int] = []
    for value, (_, _, is_constant, annotated) in zip(values, kernel.parameters):
        if is_constant or value is None:
            key.append((value,))
        elif isinstance(value, torch.Tensor):
            key.append(_DTYPES[value.dtype])
            low = value.data_ptr()
            words.append(low)
            tensors.append(value)
            ranges += (low, low + _extent(value))
            reached = reached_by(value)
            if reached is not None:
                for region in reached:
                    ranges += region.bounds
        else:
            key.append(_kind(value, annotated))
            words.append(value)
    interleaver = interleave.interleaver()
    found = (interleaver is not None, *key)
    compiled = kernel.compiled.get(found)
    if compiled is None:
        compiled = kernel.compiled[found] = _compile(kernel, tuple(key), interleaver is not None)
    if callable(grid):
        grid = grid(dict(zip([name for name, *_ in kernel.parameters], values)))
    x, y, z = (*grid, 1, 1)[:3]
    bounds = array("Q", ranges)
    failure = array("q", bytes(8 * FAILURE_WORDS))
    order: array[int] | None
    if interleaver is not None:
        order = array("Q", bytes(8 * len(Signal)))
        order[Signal.WARPS] = interleaver.warps or kwargs.get("num_warps", interleave.WARPS)
        order[Signal.LANES] = interleaver.lanes
    else:
        order = array("q", _order[-1](x * y * z)) if _order else None
    packed = compiled.words.pack(
        *words,
        x,
        y,
        z,
        bounds.buffer_info()[0],
        len(ranges) // 2,
        failure.buffer_info()[0],
        order.buffer_info()[0] if order else 0,
    )
    if isinstance(compiled.run, Interleaved):
        fine = _interleave(kernel, compiled, values, packed, order, (x, y, z), interleaver)
    else:
        fine = not compiled.run(packed)
    if not fine:
        raise _failed(kernel, compiled, values, failure)


def _interleave(
    kernel: _Kernel,
    compiled: Compiled,
    values: list[Any],
    packed: bytes,
    signal: array[int] | None,
    grid: tuple[int, int, int],
    interleaver: Interleaver | None,
) -> bool:
    """Run a launch of the interleaved form; False if a program failed."""
    assert isinstance(compiled.run, Interleaved)
    assert signal is not None
    assert interleaver is not None
    words = ctypes.create_string_buffer(packed, len(packed))
    lags = interleaver.lags(kernel.name)
    ran = interleave.run(compiled.run, words, signal, grid, lags, interleaver.barriers)

    def place(address: int, size: int) -> tuple[str, int | None]:
        return _nearest(_regions(kernel, values), address, size)

    warps = signal[Signal.WARPS]
    interleaver.ran(Log(kernel.name, grid, warps, compiled.sites, ran.entries, ran.complete, ran.taken, place))
    return ran.fine


_order: list[Callable[[int], Sequence[int]]] = []


@contextmanager
def programs_in(order: Callable[[int], Sequence[int]]) -> Iterator[None]:
    """Run the programs of the launches inside in another order: `order(n)` is a permutation of `range(n)`, x fastest.

    A GPU is free to take any. Not for launches from several threads at once.
    """
    _order.append(order)
    try:
        yield
    finally:
        _order.pop()


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if tensor.is_contiguous():
        return tensor.numel() * tensor.element_size()
    if 0 in tensor.shape:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))) * tensor.element_size()


def _compile(kernel: _Kernel, key: tuple[Any, ...], interleaved: bool) -> Compiled:
    names = [name for name, *_ in kernel.parameters]
    signature = {name: "constexpr" if isinstance(kind, tuple) else kind for name, kind in zip(names, key)}
    constants: dict[tuple[int, ...], Any] = {(i,): kind[0] for i, kind in enumerate(key) if isinstance(kind, tuple)}
    run: Run | Interleaved
    run, sites = (cache.interleaved if interleaved else cache.compiled)(kernel.fn, signature, constants)
    kinds = [kind for kind in key if not isinstance(kind, tuple)]
    form = "<" + "".join("Q" if kind[0] == "*" else _PACKED.get(kind, "q") for kind in kinds) + "qqqQqQQ"
    return Compiled(run, struct.Struct(form), sites)


def _failed(kernel: _Kernel, compiled: Compiled, values: list[Any], failure: array[int]) -> Exception:
    """What a failed program wrote down, as an exception."""
    number, x, y, z, address = failure
    site = compiled.sites[number]
    if not site.size:
        return KernelAssertion(f"{kernel.name} at {site.file}:{site.line}: program {(x, y, z)}: {site.what}")
    address &= (1 << 64) - 1
    near, block = _nearest(_regions(kernel, values), address, site.size)
    return WildAccess(kernel.name, site.what, site.size, address, (x, y, z), site.file, site.line, near, block)


def _regions(kernel: _Kernel, values: list[Any]) -> list[Region]:
    """What a launch may touch."""
    regions: list[Region] = []
    for value, (name, *_) in zip(values, kernel.parameters):
        if isinstance(value, torch.Tensor):
            regions += (region_of(value) or Region(value, name), *(reached_by(value) or ()))
    return regions


def _nearest(regions: list[Region], address: int, size: int) -> tuple[str, int | None]:
    """Where an address lies, in terms of the array that is closest to it, and the page of the pool if that is it."""

    def distance(region: Region) -> int:
        low, high = region.bounds
        return max(low - address, address + size - high)

    if not regions:
        return "and the launch was given no memory", None
    nearest = min(regions, key=distance)
    return nearest.place(address), nearest.block(address)


_install_state: list[Callable[..., Any]] = []


def install() -> None:
    """Let `kernel[grid](...)` with host tensors run here, for the rest of the process."""
    if _install_state:
        return
    original = JITFunction.run
    _install_state.append(original)

    def run(self: JITFunction[Any], *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                if value.device.type == "cpu" and not warmup:
                    return launch(self, grid, args, kwargs)
                break
        return original(self, *args, grid=grid, warmup=warmup, **kwargs)

    JITFunction.run = run
