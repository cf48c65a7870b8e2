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
def sum_along(x, axis: tl.constexpr):
    """`tl.sum(x, axis)`, wrapping, in the dtype of `x`."""
    return tl.reduce(x, axis, _sum_combine)


@device_function
def max_of(x):
    """`tl.max(x, 0)` of a 1-D tensor."""
    return tl.reduce(x, 0, _elementwise_max)
