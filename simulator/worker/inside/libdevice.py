"""Functions of CUDA's device library that the engine's kernels name, in Triton's terms, for kernels compiled here."""

import triton
import triton.language as tl


@triton.jit
def log1p(x):
    """log(1 + x). The sampler draws noise with it, which a greedy request never looks at."""
    return tl.log(1.0 + x)


@triton.jit
def isnan(x):
    return x != x


def install() -> None:
    """Put them in the library's place, where Triton's front end looks names of the library up."""
    import triton.language.extra.cuda.libdevice as for_cuda
    import triton.language.extra.libdevice as libdevice

    for module in (libdevice, for_cuda):
        module.log1p, module.isnan = log1p, isnan
