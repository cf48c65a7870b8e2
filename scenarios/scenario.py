"""A scenario: a situation from a public report, the schedule that shows it, and what must be seen.

Read by `loader`, written by `writer`. `Scenario.run` puts it to the test: with its faults the expected violation must
come first, without them there must be none.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.values import Schedule

if TYPE_CHECKING:
    from stalerow.simulator.faults import Faults
    from stalerow.simulator.run.outcome import Outcome

FORMAT = 1
REPOSITORIES = {
    "vllm": "vllm-project/vllm",
    "vllm-ascend": "vllm-project/vllm-ascend",
    "vllm-backport": "wtdcode/vllm-backport",
    "sglang": "sgl-project/sglang",
    "tensorrt-llm": "NVIDIA/TensorRT-LLM",
}


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the first violation must be. `says` is a regular expression that its explanation must match."""

    kinds: tuple[str, ...]
    launch: str
    says: str = ""

    def met_by(self, violation: Violation) -> bool:
        return (
            violation.kind in self.kinds
            and violation.launch == self.launch
            and re.search(self.says, violation.explanation) is not None
        )


class Measured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many schedules plain fuzzing needed, over `starts` starting seeds, `found` of which found it."""

    date: datetime.date
    starts: int
    found: int
    median: int
    worst: int


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of the catalogue. `id` groups scenarios of one public bug; a report is "repository#number".

    status "not modelled" has no schedule; its text says why.
    """

    format: int = FORMAT
    name: str
    id: str
    title: str
    text: str
    reports: tuple[str, ...] = ()
    status: Literal["modelled", "not modelled"] = "modelled"
    faults: tuple[str, ...] = ()
    kernels: str = "reference:req-idx"
    expect: Expectation | None = None
    measured: Measured | None = None
    schedule: Schedule | None = None

    @property
    def links(self) -> tuple[str, ...]:
        """Addresses of the reports that are issues or pull requests."""
        made = []
        for report in self.reports:
            name, _, number = report.partition("#")
            if name in REPOSITORIES and number.isdecimal():
                made.append(f"https://github.com/{REPOSITORIES[name]}/issues/{number}")
        return tuple(made)

    def run(self) -> Result:
        """Run the schedule with the faults and without them. Raises `UsageError` if it lacks what they need."""
        from stalerow.kernels.sets import kernel_set
        from stalerow.simulator.faults import resolve

        if self.schedule is None or self.expect is None:
            return Result(self, None, None)
        kernels = kernel_set(self.kernels)
        faulty, healthy = resolve(self.faults), resolve(())
        if lacked := faulty.lacked(self.schedule):
            raise UsageError(f"scenario {self.name}: {lacked}: give it one that has it, or leave the fault out")
        return Result(self, faulty.run(self.schedule, kernels), healthy.run(self.schedule, kernels))

    def resolve(self) -> Faults:
        """The scenario's faults."""
        from stalerow.simulator.faults import resolve

        return resolve(self.faults)


@dataclass(frozen=True, slots=True)
class Result:
    """What running a scenario showed; outcomes are None where there is nothing to run."""

    scenario: Scenario
    faulty: Outcome | None
    healthy: Outcome | None

    @property
    def first(self) -> Violation | None:
        return self.faulty.violations[0] if self.faulty and self.faulty.violations else None

    @property
    def found(self) -> bool:
        """Whether the first violation is the expected one."""
        expect = self.scenario.expect
        return self.first is not None and expect is not None and expect.met_by(self.first)

    @property
    def clean(self) -> bool:
        """Whether the correct system shows nothing on the same schedule."""
        return self.healthy is not None and self.healthy.clean

    @property
    def ok(self) -> bool:
        return self.scenario.status == "not modelled" or (self.found and self.clean)
