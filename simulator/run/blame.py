"""An exception that came out of a kernel, as a violation: what it was, and where in the kernel's own source.

In: the operation that launched the kernel and the exception. Out: a `Violation` that names file and line.
"""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from stalerow.simulator.files import one_line
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Operation

INTERPRETERS = ("InterpreterError",)
"""What Triton wraps a kernel's exception in."""

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
_OURS = (str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "kernels" / "base"))


def kernel_raised(rank: int, operation: Operation, error: BaseException) -> Violation:
    """The violation of a kernel under test that raised instead of returning."""
    while type(error).__name__ in INTERPRETERS and error.__cause__ is not None:
        error = error.__cause__
    said = one_line(error)
    of = operation.batch_step
    late = "deferred " if of != operation.step else ""
    return Violation(
        kind="kernel raised",
        rank=rank,
        launch=operation.kind,
        step=of,
        during=operation.step,
        deferred=of != operation.step,
        explanation=f"kernel raised {type(error).__name__} at {_place(error)} in {late}{operation.kind} of step {of} "
        f"on rank {rank}{': ' if said else ''}{said}",
    )


def innermost(error: BaseException) -> traceback.FrameSummary:
    """The innermost frame that is neither a library's nor the simulator's; any, if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((*_LIBRARIES, *_OURS, "<"))]
    return (own or frames)[-1]


def _place(error: BaseException) -> str:
    frame = innermost(error)
    return f"{Path(frame.filename).name}:{frame.lineno}"
