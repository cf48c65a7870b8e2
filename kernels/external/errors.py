"""What can go wrong between a name given to ``--kernels`` and kernels that run: one exception per cause.

Every message is one line: the offending value, what was expected, and what to do about it.
"""


class ExternalKernelError(ValueError):
    """An engine's kernels could not be had, understood or bound."""


class DownloadError(ExternalKernelError):
    """The wheel of a release could not be had: no network, no such version, or no pip."""


class SourceNotFound(ExternalKernelError):
    """A path, wheel or checkout does not hold the engine's ``v1/worker/mamba_utils.py``."""


class ExtractionError(ExternalKernelError):
    """A kernel needs something that cannot be taken out of its file without running the engine."""


class MissingKernel(ExternalKernelError):
    """The file lacks a kernel that the runner launches."""


class UnknownParameter(ExternalKernelError):
    """A kernel takes a parameter for which no value is known."""


class BadBinding(ExternalKernelError):
    """A value given for a parameter cannot be read, or no kernel takes it."""


class UnclearCaller(ExternalKernelError):
    """The source does not show which block tables the copy kernels are bound to."""
