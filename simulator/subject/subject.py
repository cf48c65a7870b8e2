"""What a campaign, a replay or a test puts to the question: a kernel set by name, on a device, with faults or without.

A `Subject` is a plain value, so it travels to worker processes and into saved failures; kernel sets are loaded where
they run, once per process. `Subject.run` is the one way from a schedule to an outcome for fuzzing, shrinking,
replaying and the pytest plugin.
"""

from __future__ import annotations

import functools
import importlib
import re
import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from stalerow.kernels.sets import KernelSet
    from stalerow.simulator.faults import Faults
    from stalerow.simulator.run.outcome import FaultUse, Outcome
    from stalerow.simulator.run.simulation import Observer
    from stalerow.simulator.schedule.values import Schedule

REFERENCE = "reference:"


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel set by name, the device for it, and the names of the faults put in.

    worker: a release ("vllm==0.32.0") or a checkout's folder whose own scheduler, worker and kernels run instead, with
    `python`, or the environment in the user's cache if that is empty.
    """

    kernels: str = "req-idx"
    device: str = "auto"
    faults: tuple[str, ...] = ()
    worker: str = ""
    python: str = ""

    def run(self, schedule: Schedule, observer: Observer | None = None, order: Any = None) -> Outcome:
        """Run a schedule. Raises `UsageError` for one that no engine would accept."""
        from stalerow.simulator.run.outcome import run

        if self.worker:
            from stalerow.simulator.worker.subject import run as run_worker

            return run_worker(self.worker, self.python, schedule, observer)
        loaded = self.load()
        if not self.faults:
            return run(schedule, loaded, observer=observer, order=order)
        return _faults(self.faults).run(schedule, loaded, observer=observer, order=order)

    def lacking(self, schedule: Schedule) -> tuple[FaultUse, ...]:
        """What becomes of the faults in a schedule that lacks what one of them needs; () if it lacks nothing."""
        if not self.faults:
            return ()
        from stalerow.simulator.faults.hooks import has_what_it_needs
        from stalerow.simulator.run.outcome import FaultUse

        met = [(fault.name, has_what_it_needs(fault, schedule)) for fault in _faults(self.faults).faults]
        return () if all(has for _, has in met) else tuple(FaultUse(name, has, {}) for name, has in met)

    def require(self, schedule: Schedule, name: str) -> None:
        """Raise `UsageError` for a schedule, called `name`, that lacks what a fault needs: it would show nothing."""
        if self.faults and (lacked := _faults(self.faults).lacked(schedule)):
            raise UsageError(f"{name}: {lacked}: choose another schedule, or leave the fault out")

    def load(self) -> KernelSet:
        """The kernel set, without the faults; loaded once per process. Raises `UsageError` if it cannot be had."""
        if self.worker:
            raise UsageError(f"--worker {self.worker} brings its own kernels: this command runs kernel sets only")
        try:
            return _load(self.kernels, self.device)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def check(self) -> None:
        """Raise now what `run` would raise for a name that cannot be had, at the price of loading what it names."""
        if self.worker:
            from stalerow.simulator.worker.environment import environment

            if self.faults:
                raise UsageError(f"--worker {self.worker} runs no --fault, which are for our own ranks: leave it out")
            environment(self.worker, self.python)
            return
        self.load()
        if self.faults:
            _faults(self.faults)

    def twin(self, interleaved: bool = False) -> Subject | None:
        """The NumPy specification of the same kernels, far faster than Triton's interpreter; None if there is none, as
        for `interleaved` schedules, since it has no programs."""
        from stalerow.kernels.sets import KERNEL_SETS

        name = REFERENCE + self.kernels
        if self.worker or interleaved or name not in KERNEL_SETS:
            return None
        return Subject(kernels=name, faults=self.faults)

    def on_gpu(self) -> bool:
        """Whether kernels run compiled: then programs of one launch run at once, and wrong copies may race."""
        return not self.worker and bool(self.load().backend.name == "triton-cuda")

    @property
    def faithful_by_default(self) -> bool:
        """Whether the kernels come from an engine, so that seeds are kept to what it may do unless told otherwise."""
        from stalerow.kernels.sets import KERNEL_SETS

        return bool(self.worker) or (self.kernels not in KERNEL_SETS and ":" not in self.kernels.partition("[")[0])

    @property
    def harmless(self) -> bool:
        """Whether nothing that runs can take the process down: our own references, without faults."""
        from stalerow.kernels.sets import KERNEL_SETS

        return self.kernels in KERNEL_SETS and self.kernels.startswith(REFERENCE) and not self.faults

    def options(self) -> str:
        """The command-line options that name this subject."""
        if self.worker:
            python = f" --python {shlex.quote(self.python)}" if self.python else ""
            return f"--worker {shlex.quote(self.worker)}{python}"
        device = "" if self.device == "auto" or self.kernels.startswith(REFERENCE) else f" --device {self.device}"
        faults = "".join(f" --fault {shlex.quote(name)}" for name in self.faults)
        return f"--kernels {shlex.quote(self.kernels)}{device}{faults}"

    def __str__(self) -> str:
        if self.worker:
            return f"{self.worker}'s own worker"
        return self.kernels + (f" with {', '.join(self.faults)}" if self.faults else "")


@functools.cache
def _load(name: str, device: str) -> KernelSet:
    from stalerow.kernels.sets import kernel_set

    if made_by_function(name):
        return _made(name, device)
    return kernel_set(name, "auto" if name.startswith(REFERENCE) else device)


def made_by_function(name: str) -> bool:
    """Whether a name is MODULE:FUNCTION, of a function that makes a kernel set."""
    return not name.startswith(REFERENCE) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name) is not None


def _made(name: str, device: str) -> KernelSet:
    """`package.module:function`: what the function returns for a device name."""
    module, _, function = name.partition(":")
    try:
        made: KernelSet = getattr(importlib.import_module(module), function)(device)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"kernel set {name!r} cannot be made ({error}): give MODULE:FUNCTION where FUNCTION(device) "
            "returns a stalerow.kernels.sets.KernelSet"
        ) from None
    return made


@functools.lru_cache(maxsize=8)
def _faults(names: tuple[str, ...]) -> Faults:
    from stalerow.simulator.faults import resolve

    return resolve(names)
