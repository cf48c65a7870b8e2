"""Device functions and reductions that cost nothing extra in Triton's interpreter.

The interpreter patches the whole Triton language again for every nested `@triton.jit` call, about 1 ms each,
and `tl.sum` and `tl.max` are such calls. Kernels therefore put shared code into `device_function`s and reduce
with the functions below; compiled, both are ordinary Triton.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl
from triton.language.standard import _elementwise_max, _sum_combine


def device_function(fn: Callable[..., Any]) -> Any:
    """`triton.jit` where kernels are compiled; in the interpreter the function itself, to be called in place."""
    return fn if triton.knobs.runtime.interpret else triton.jit(fn)


@device_function
def load_kept(pointer, mask=None, other=None):
    """`tl.load` of what every program reads, to be kept in the L2 cache while copies stream through it."""
    return tl.load(pointer, mask=mask, other=other, eviction_policy="evict_last")


@device_function
def sum_along(x, axis: tl.constexpr):
    """`tl.sum(x, axis)`, wrapping, in the dtype of `x`."""
    return tl.reduce(x, axis, _sum_combine)


@device_function
def max_of(x):
    """`tl.max(x, 0)` of a 1-D tensor."""
    return tl.reduce(x, 0, _elementwise_max)


@device_function
def cumulative_sum(x):
    """`tl.cumsum(x, 0)` of a 1-D tensor, in the dtype of `x`."""
    return tl.associative_scan(x, 0, _sum_combine)


@triton.jit
def _add_four(a, b, c, d, w, x, y, z):
    return a + w, b + x, c + y, d + z


@triton.jit
def _sums(a, b, c, d):
    return tl.reduce((a, b, c, d), 0, _add_four)


def _sums_one_by_one(*values: Any) -> tuple[Any, ...]:
    return tuple(sum_along(x, 0) for x in values)


# Compiled, sums made in one reduction share its barriers; the interpreter is quick only with one at a time.
sum_four = _sums_one_by_one if triton.knobs.runtime.interpret else _sums
