"""What compiling or launching a kernel on the host can raise."""

from __future__ import annotations

from stalerow.kernels.base.device import DeviceError
from stalerow.kernels.base.memory import WildAccess

__all__ = ["KernelAssertion", "MissingCompiler", "Unsupported", "WildAccess"]


class Unsupported(DeviceError):
    """The kernel uses an operation of Triton's IR that is not translated; `operation` names it, `where` its line."""

    def __init__(self, kernel: str, operation: str, where: str = "") -> None:
        self.kernel = kernel
        self.operation = operation
        self.where = where
        place = f" ({where})" if where else ""
        super().__init__(
            f"{kernel} uses {operation}{place}, which cannot be compiled for the host; use --device interpreter"
        )


class MissingCompiler(ImportError):
    """A package that compiling needs is not installed; the message names it."""


class KernelAssertion(AssertionError):
    """A `tl.device_assert` failed; the message says which, where and in which program."""
