"""The plugin's options: declared, and read once into what tests are given; a bad one ends the session before any test.

In: the command line or `addopts`. Out: a `Subject`, and the draws of `stalerow_schedule`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.subject.subject import Subject


def add(parser: pytest.Parser) -> None:
    group = parser.getgroup("stalerow", "schedule simulation of LLM serving kernels")
    group.addoption("--stalerow-kernels", default=None, metavar="SET", help="kernel set (default: req-idx)")
    devices = ("auto", "cpu", "interpreter", "cuda")
    group.addoption("--stalerow-device", default="auto", choices=devices, help="where kernels run")
    group.addoption("--stalerow-seeds", default="0:50", metavar="A:B", help="seeds A to B-1 for stalerow_schedule")
    group.addoption("--stalerow-pp", default=None, metavar="P", help="pipeline size of stalerow_schedule's seeds")
    group.addoption(
        "--stalerow-runner", default=None, choices=("v1", "v2"), help="model runner of stalerow_schedule's seeds"
    )
    group.addoption(
        "--stalerow-only-faithful",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="keep stalerow_schedule's seeds to what the modelled engine may do (default: for an engine's own kernels)",
    )
    group.addoption("--stalerow-fault", action="append", default=[], metavar="NAME", help="put a fault in (repeatable)")
    group.addoption(
        "--stalerow-failures", default=None, metavar="DIR", help="where failures go (default: .stalerow/failures)"
    )
    group.addoption("--stalerow-settings", default=None, choices=("ci", "fuzz", "nightly"), help="Hypothesis settings")
    group.addoption("--stalerow-require-marks", action="store_true", help="fail if a mark was never seen")


def check(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for an option that every test would fail of."""
    from stalerow.simulator.commands.options import ranks, seed_range

    for name, read in (("seeds", seed_range), ("pp", ranks)):
        value = config.getoption(f"--stalerow-{name}")
        try:
            if value is not None:
                read(value)
        except argparse.ArgumentTypeError as error:
            raise pytest.UsageError(f"--stalerow-{name}: {error}") from None
    if hasattr(config, "workerinput") or not _says_what_runs(config):
        return
    from stalerow.kernels.base.device import DeviceError
    from stalerow.kernels.external.errors import ExternalKernelError
    from stalerow.simulator.errors import UsageError

    try:
        subject(config).check()
    except (UsageError, DeviceError, ExternalKernelError) as error:
        given = "--stalerow-kernels" if config.getoption("--stalerow-kernels") else "--stalerow-fault"
        raise pytest.UsageError(f"{given}: {' '.join(str(error).split())}") from None


def _says_what_runs(config: pytest.Config) -> bool:
    return bool(config.getoption("--stalerow-kernels") or config.getoption("--stalerow-fault"))


def subject(config: pytest.Config) -> Subject:
    """The kernel set asked for, with the faults."""
    from stalerow.simulator.subject.subject import Subject

    return Subject(
        kernels=config.getoption("--stalerow-kernels") or "req-idx",
        device=str(config.getoption("--stalerow-device")),
        faults=tuple(config.getoption("--stalerow-fault")),
    )


def draws(config: pytest.Config) -> list[Draw]:
    """What `stalerow_schedule` is made from, in order."""
    import msgspec

    from stalerow.simulator.commands.options import ranks, seed_range
    from stalerow.simulator.schedule.draw import Draw

    pp, faithful = config.getoption("--stalerow-pp"), config.getoption("--stalerow-only-faithful")
    if faithful is None:
        faithful = subject(config).faithful_by_default
    first = Draw(
        0, pp=None if pp is None else ranks(pp), runner=config.getoption("--stalerow-runner"), faithful=faithful
    )
    seeds = seed_range(config.getoption("--stalerow-seeds"))
    return [msgspec.structs.replace(first, seed=seed) for seed in seeds]
