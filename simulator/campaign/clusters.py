"""Tasks on a Ray cluster: the engine that users run their own serving stack on, on one machine or many.

Ray never repeats a task by itself here. A task whose node or worker process is lost is given out once more, which
`repeated` tells; a task that takes down two workers in a row is its own fault, as with `workers.Workers`. So is one
that does not return within its `limit_s`, which ends its worker.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from stalerow.simulator.campaign.leases import guarded
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.workers import TICK_S
from stalerow.simulator.errors import UsageError

ATTEMPTS = 2
"""How often a task may take its worker process down before it is blamed. A node that is lost counts for none."""


class _Given(NamedTuple):
    ticket: int
    task: Any
    deaths: int
    since: float


class RayCluster:
    """`address` as Ray takes it: "auto" for the cluster this machine is part of, None for one of its own.

    `work` must be importable on every node: stalerow is installed there. Raises `UsageError` without Ray or a cluster.
    """

    def __init__(self, work: Callable[[Any], Any], address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError("Ray is not installed: pip install 'stalerow[ray]'") from None
        self._ray, self._address = ray, address
        self._own = not ray.is_initialized()
        self._work = work
        self._given: dict[Any, _Given] = {}
        self._tickets = 0
        self._repeated: list[str] = []
        self._cores, self._counted = 0, -TICK_S

    def __enter__(self) -> Self:
        if self._own:
            told = signal.getsignal(signal.SIGTERM)
            try:
                self._ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise UsageError(f"no Ray cluster at {self._address!r}: {error}") from None
            # Ray's own handler ends the process at once, with what it has found untold.
            if told is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, told)
        self._run = self._ray.remote(max_retries=0, num_cpus=1)(guarded)
        return self

    def __exit__(self, *exc: object) -> None:
        for ref in self._given:
            self._ray.cancel(ref, force=True)
        self._given.clear()
        if self._own:
            self._ray.shutdown()

    @property
    def running(self) -> int:
        return len(self._given)

    @property
    def idle(self) -> int:
        """Cores of the nodes that are alive, without those taken. Nodes come and go."""
        if time.monotonic() - self._counted >= TICK_S:
            alive = [node for node in self._ray.nodes() if node["Alive"]]
            self._cores, self._counted = int(sum(node["Resources"].get("CPU", 0) for node in alive)), time.monotonic()
        return max(self._cores - len(self._given), 0)

    def submit(self, task: Any) -> int:
        self._tickets += 1
        self._give(_Given(self._tickets, task, 0, 0.0))
        return self._tickets

    def _give(self, given: _Given) -> None:
        self._given[self._run.remote(self._work, given.task)] = given._replace(since=time.monotonic())

    def wait(self, timeout: float | None = None) -> list[Done]:
        if not self._given:
            return []
        ready, _ = self._ray.wait(list(self._given), timeout=timeout)
        return [done for ref in ready if (done := self._taken(ref, self._given.pop(ref))) is not None]

    def _taken(self, ref: Any, given: _Given) -> Done | None:
        """What became of a task; None if it runs again."""
        lost = self._ray.exceptions
        try:
            value, error, trace = self._ray.get(ref)
        except (lost.NodeDiedError, lost.LocalRayletDiedError, lost.OwnerDiedError, lost.ObjectLostError):
            self._again(given, "its node was lost")
            return None
        except lost.WorkerCrashedError:
            limit = getattr(given.task, "limit_s", None)
            hung = limit is not None and time.monotonic() - given.since >= limit
            if given.deaths + 1 < ATTEMPTS:
                why = f"did not return within {limit:g} s" if hung else "died"
                self._again(given._replace(deaths=given.deaths + 1), f"its worker process {why}")
                return None
            if hung:
                return Done(given.ticket, given.task, hung=f"did not return within {limit:g} s, in two workers")
            return Done(given.ticket, given.task, died="died in two workers")
        return Done(given.ticket, given.task, value, error, trace)

    def _again(self, given: _Given, why: str) -> None:
        self._repeated.append(f"{given.task} ran again: {why}")
        self._give(given)

    def repeated(self) -> list[str]:
        told, self._repeated = self._repeated, []
        return told
