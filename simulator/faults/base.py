"""A fault: one named, small deviation from the correct system, stated against a declared extension point.

A `Fault` is a class. Its attributes say what it is; `engine`, `rank` and the two `wrap` hooks say where it deviates:
policies of the engine (`simulator.engine.policies`), of a worker (`simulator.rank.policy`), and the kernel set that
the ranks launch. `registry` finds faults by name and `combine` puts several of them into one run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from stalerow.kernels.align.kernels import AlignKernels
from stalerow.kernels.own.operators import Operators
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.schedule.values import Schedule


class Fault:
    """Subclass it with a `name`, a `summary` and at least one deviation; the docstring tells the report's story.

    `id` is the row of the catalogue it stands for, `reports` are public reports. `expected` are the kinds of violation
    that they describe, `launches` the operations where they show (any if empty), `says` a regular expression for what
    the explanation must mention; `shows` applies all three.

    `engine` maps a field of `Policies` to a subclass of that field's class; `rank` is a subclass of `RankPolicy`.
    Overrides should call `super()` for what they do not change, so that faults combine.
    """

    name: ClassVar[str] = ""
    id: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    reports: ClassVar[tuple[str, ...]] = ()
    expected: ClassVar[tuple[str, ...]] = ()
    launches: ClassVar[tuple[str, ...]] = ()
    says: ClassVar[str] = ""
    engine: ClassVar[Mapping[str, type[Any]]] = {}
    rank: ClassVar[type[RankPolicy] | None] = None

    def shows(self, violation: Violation) -> bool:
        """Whether a violation is the one that the reports describe, and not some other consequence."""
        return (
            violation.kind in self.expected
            and (not self.launches or violation.launch in self.launches)
            and re.search(self.says, violation.explanation) is not None
        )

    def needs(self, schedule: Schedule) -> bool:
        """Whether the schedule has what the fault cannot show itself without."""
        return True

    def wrap(self, kernels: KernelSet, schedule: Schedule) -> KernelSet:
        """The kernel set to run instead."""
        align, ops = self.wrap_align(kernels, schedule), self.wrap_ops(kernels, schedule)
        return kernels._replace(align=align, ops=ops)

    def wrap_align(self, kernels: KernelSet, schedule: Schedule) -> AlignKernels:
        """The align kernels to run instead: the launches of `kernels.align`, changed."""
        return kernels.align

    def wrap_ops(self, kernels: KernelSet, schedule: Schedule) -> Operators:
        """The other operators to run instead: those of `kernels.ops`, changed."""
        return kernels.ops


class Wrapped:
    """Everything of another object except what a subclass defines itself: the base of kernel wrappers."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
