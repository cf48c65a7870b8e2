"""An engine's own kernels as a kernel set: a vLLM release, a checkout, a package's folder, or one file.

`load` takes the ``@triton.jit`` functions out of the engine's ``v1/worker/mamba_utils.py`` (``source``,
``wheel``, ``extract``), binds their parameters by name (``vocabulary``, ``signatures``), reads from the
surrounding source what the release's runner does around them (``convention``), and returns a `KernelSet` that
launches them (``align``). Nothing of the engine is imported or installed. `describe` says what was found and
how. Importing this package imports neither Triton nor torch.
"""

from typing import TYPE_CHECKING

from .describe import Description, KernelFound, describe
from .errors import (
    BadBinding,
    DownloadError,
    ExternalKernelError,
    ExtractionError,
    MissingKernel,
    SourceNotFound,
    UnclearCaller,
    UnknownParameter,
)
from .facts import CallingConvention, Fact, Meta

if TYPE_CHECKING:
    from stalerow.kernels.own.sets import KernelSet

__all__ = [
    "BadBinding",
    "CallingConvention",
    "Description",
    "DownloadError",
    "ExternalKernelError",
    "ExtractionError",
    "Fact",
    "KernelFound",
    "Meta",
    "MissingKernel",
    "SourceNotFound",
    "UnclearCaller",
    "UnknownParameter",
    "describe",
    "load",
]


def load(name: str, device: str) -> "KernelSet":
    """The kernel set of the engine that `name` stands for, on `device` (see `stalerow.kernels.own.devices.DEVICES`).

    `name` is a release (``vllm==0.30.0``), a folder with the engine's package, or a ``mamba_utils.py``. The
    set's ``align`` has the engine's kernels and, as ``align.caller``, a `CallingConvention`; its other operators
    are the project's. Raises an `ExternalKernelError` that names what is wrong, or `DeviceError`.
    """
    # Here and not above, so that describing an engine does not import Triton.
    from stalerow.kernels.own.sets import KernelSet, own_set

    from .align import ExternalAlign
    from .convention import convention
    from .extract import extract
    from .module import load_module
    from .signatures import signatures
    from .source import find

    source = find(name)
    found = signatures(source)
    caller, meta, _ = convention(source)
    own = own_set("req-idx" if caller.binds == "slot" else "batch-row", device)
    module = load_module(source, extract(source.kernels, [kernel.name for kernel in found.values()], source.imported))
    align = ExternalAlign(name, module, found, caller, meta, own.align, own.backend)
    return KernelSet(name=name, align=align, ops=own.ops, backend=own.backend)
