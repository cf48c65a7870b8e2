"""The public face: what a test, a script or a plugin of somebody else's repository may import, and nothing else.

Every name is loaded when it is first asked for, since pytest imports this package at every start for its plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stalerow.kernels.align.kernels import AlignKernels
    from stalerow.kernels.sets import KernelSet, UnknownKernelSet, kernel_set
    from stalerow.simulator.campaign.summary import CampaignSummary
    from stalerow.simulator.errors import UsageError
    from stalerow.simulator.faults import Fault
    from stalerow.simulator.oracle.violations import Violation
    from stalerow.simulator.run.outcome import Outcome, run
    from stalerow.simulator.schedule.file import load, to_json
    from stalerow.simulator.schedule.generate import from_seed
    from stalerow.simulator.schedule.strategies import load_settings, schedules
    from stalerow.simulator.schedule.values import Schedule
    from stalerow.simulator.subject.subject import Subject
    from stalerow.simulator.testing.campaigns import fuzz
    from stalerow.simulator.testing.isolation import IsolationError, assert_isolated

__all__ = [
    "AlignKernels",
    "CampaignSummary",
    "Fault",
    "IsolationError",
    "KernelSet",
    "Outcome",
    "Schedule",
    "Subject",
    "UnknownKernelSet",
    "UsageError",
    "Violation",
    "assert_isolated",
    "from_seed",
    "fuzz",
    "kernel_set",
    "load",
    "load_settings",
    "run",
    "schedules",
    "to_json",
]

_HOMES = {
    "stalerow.kernels.align.kernels": ("AlignKernels",),
    "stalerow.kernels.sets": ("KernelSet", "UnknownKernelSet", "kernel_set"),
    "stalerow.simulator.campaign.summary": ("CampaignSummary",),
    "stalerow.simulator.errors": ("UsageError",),
    "stalerow.simulator.faults": ("Fault",),
    "stalerow.simulator.oracle.violations": ("Violation",),
    "stalerow.simulator.run.outcome": ("Outcome", "run"),
    "stalerow.simulator.subject.subject": ("Subject",),
    "stalerow.simulator.schedule.file": ("load", "to_json"),
    "stalerow.simulator.schedule.generate": ("from_seed",),
    "stalerow.simulator.schedule.strategies": ("load_settings", "schedules"),
    "stalerow.simulator.schedule.values": ("Schedule",),
    "stalerow.simulator.testing.campaigns": ("fuzz",),
    "stalerow.simulator.testing.isolation": ("IsolationError", "assert_isolated"),
}


def __getattr__(name: str) -> Any:
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(home), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it exports {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
