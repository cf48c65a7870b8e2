"""Scan seeds many at a time, and name the schedules that deserve a run of their own.

Worker processes record. On a CPU each executes what it has recorded; on a GPU one process executes for all, so that
kernels are compiled once and packs are large. Results come in the order of seeds, whatever order workers finish in.
"""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import msgspec

from stalerow.kernels.base.layout import Layout
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.campaign.findings import Tally
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.workers import TICK_S, Workers
from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.universes.execute import execute
from stalerow.simulator.universes.pack import pack
from stalerow.simulator.universes.record import record
from stalerow.simulator.universes.tape import Tape

AT_ONCE = 16
"""Schedules of a pack that are given as much time as one by itself: a pack takes far less than its schedules alone."""

CHUNK = 128
"""Seeds that a worker records at a time where another process executes them."""


@dataclass(frozen=True, slots=True)
class Universe:
    """What one schedule showed in a pack. `memory` as in `run.Outcome`.

    check: what failed first, "" if nothing did. refused: how the whole pack ended before it showed anything, the same
    text for all of its schedules. unlike: how a run alone differed, "" where it did not or none was made.
    """

    draw: Draw
    memory: str = ""
    check: str = ""
    marks: tuple[str, ...] = ()
    refused: str = ""
    unlike: str = ""

    @property
    def flagged(self) -> bool:
        """Whether the schedule has to run alone."""
        return bool(self.check or self.refused)

    def differs(self, memory: str, violating: bool, exact: bool) -> str:
        """How a run alone differs from the pack. Without `exact`, wrong copies may have left other memory."""
        if violating != self.flagged:
            return f"{self.check or 'clean'} in a pack, but {'violating' if violating else 'clean'} alone"
        if memory != self.memory and (exact or not violating):
            return f"memory {self.memory} in a pack, but {memory} alone"
        return ""


Recorded = tuple[Draw, Layout, Tape]


@dataclass(frozen=True, slots=True)
class Record:
    """Record seeds of one family, and execute them too where `universes` says how many at a time."""

    draws: tuple[Draw, ...]
    subject: Subject
    universes: int | None
    limit_s: float | None = None

    def __str__(self) -> str:
        return f"seeds {self.draws[0].seed} to {self.draws[-1].seed}, family {self.draws[0].family}, in a pack"

    def do(self) -> list[Recorded] | list[Universe]:
        # The caller's habits are all that matters here: who only records need not load what runs on a GPU.
        twin = self.subject.twin() if self.universes is None else None
        align = (twin or self.subject).load().align
        recorded: list[Recorded] = []
        with _without_collector():
            for draw in self.draws:
                schedule = from_draw(draw)
                recorded.append((draw, schedule.layout, record(schedule, align)))
        return recorded if self.universes is None else look(recorded, self.subject, self.universes)


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Execute what others have recorded."""

    recorded: list[Recorded]
    subject: Subject
    universes: int
    limit_s: float | None = None

    def __str__(self) -> str:
        return f"a pack of {len(self.recorded)} schedules"

    def do(self) -> list[Universe]:
        return look(self.recorded, self.subject, self.universes)


def do(task: Record | Lockstep) -> list[Recorded] | list[Universe]:
    """What workers run."""
    return task.do()


def look(recorded: Sequence[Recorded], subject: Subject, universes: int) -> list[Universe]:
    """Execute recorded schedules in packs of up to `universes`, schedules of about one length together."""
    alike: dict[tuple[Layout, int], list[Recorded]] = {}
    for one in recorded:
        # Pools may differ in size: a pack gives every universe as much as its largest needs.
        alike.setdefault((msgspec.structs.replace(one[1], num_blocks=2), len(one[2].ranks)), []).append(one)
    found: list[Universe] = []
    for group in alike.values():
        group.sort(key=lambda one: one[2].frames)
        for first in range(0, len(group), universes):
            found += _execute(group[first : first + universes], subject)
    return sorted(found, key=lambda universe: universe.draw.seed)


def _execute(group: Sequence[Recorded], subject: Subject) -> list[Universe]:
    """One pack. Its first schedule runs alone as well, and has to show the same."""
    kernels = subject.load()
    try:
        verdicts = execute(pack(group[0][1], [tape for _, _, tape in group]), kernels)
    except UsageError:
        raise
    except Exception as error:
        if subject.on_gpu() and _device_is_gone(kernels):
            # Nothing runs in this process any more; its successor starts afresh.
            traceback.print_exc()
            os._exit(os.EX_SOFTWARE)
        # Which schedule it was, and why, each one's run alone will say.
        return _refused([draw for draw, _, _ in group], repr(error))
    found = [
        Universe(draw, verdict.memory, verdict.check or _suspicion(tape), tuple(tape.marks))
        for (draw, _, tape), verdict in zip(group, verdicts)
    ]
    outcome = subject.run(from_draw(group[0][0]))
    unlike = found[0].differs(outcome.memory, bool(outcome.violations), exact=False)
    return [replace(found[0], unlike=unlike), *found[1:]]


def _suspicion(tape: Tape) -> str:
    return tape.suspects[0].explanation if tape.suspects else ""


def _device_is_gone(kernels: KernelSet) -> bool:
    try:
        kernels.backend.synchronize()
    except RuntimeError:
        return True
    return False


def _refused(draws: Sequence[Draw], why: str) -> list[Universe]:
    """All schedules of a pack that showed nothing."""
    text = f"a pack of {len(draws)} schedules from seed {draws[0].seed} on showed nothing: {why}"
    return [Universe(draw, refused=text) for draw in draws]


@contextmanager
def _without_collector() -> Iterator[None]:
    """A recording leaves little garbage in cycles, and looking for it again and again took a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _TimeIsUp(Exception):
    """Ends a scan between two results."""


class Scan:
    """Seeds in packs of `universes`; pack number k belongs to family `k % families`.

    `together`: one process executes what all others record. `schedule_s`: seconds that one schedule may take.
    """

    def __init__(
        self,
        subject: Subject,
        draws: Iterator[Draw],
        universes: int,
        families: int,
        jobs: int,
        seconds: float | None = None,
        keep_going: bool = False,
        schedule_s: float | None = None,
    ) -> None:
        if subject.faults:
            raise UsageError("many universes run kernel sets as they are: leave out --fault or --universes")
        self._subject, self._draws, self._per_pack, self._families = subject, draws, universes, families
        self._jobs, self._seconds, self._keep_going = jobs, seconds, keep_going
        self._limit_s = None if schedule_s is None else schedule_s * (1 + universes / AT_ONCE)
        self.together = subject.on_gpu()
        self.flagged: list[Universe] = []
        self.unlike: list[Universe] = []
        self.scanned = 0

    def run(self, tally: Tally, tick: Callable[[], None]) -> list[Universe]:
        """Until seeds or time are used up, or the first pack with a flagged schedule unless told to keep going.

        Counts the schedules that need no run of their own in `tally`. Returns the flagged ones, in order.
        """

        def meanwhile() -> None:
            tick()
            if self._seconds is not None and time.monotonic() - tally.began >= self._seconds:
                raise _TimeIsUp

        try:
            for universes in self._results(meanwhile):
                for universe in universes:
                    self.scanned += 1
                    if universe.unlike:
                        self.unlike.append(universe)
                    if universe.flagged:
                        self.flagged.append(universe)
                    else:
                        tally.count(universe.marks, None)
                if (self.flagged or self.unlike) and not self._keep_going:
                    break
                meanwhile()
        except _TimeIsUp:
            pass
        except KeyboardInterrupt:
            tally.interrupted = True
        return self.flagged

    def _results(self, meanwhile: Callable[[], None]) -> Iterator[list[Universe]]:
        with ExitStack() as stack:
            recorders = stack.enter_context(Workers(self._jobs, do))
            if not self.together:
                for done in recorders.map(self._tasks(), meanwhile):
                    yield self._universes(done)
                return
            executor = stack.enter_context(Workers(1, do))
            waiting: list[Recorded] = []
            for done in recorders.map(self._tasks(), meanwhile):
                waiting += _value(done)
                if len(waiting) >= self._per_pack:
                    executor.submit(Lockstep(waiting, self._subject, self._per_pack, self._limit_s))
                    waiting = []
                # Recording must not run away from execution.
                while executor.running > 1:
                    for ended in executor.wait(TICK_S):
                        yield self._universes(ended)
                    meanwhile()
                for ended in executor.wait(0):
                    yield self._universes(ended)
            if waiting:
                executor.submit(Lockstep(waiting, self._subject, self._per_pack, self._limit_s))
            while executor.running:
                for ended in executor.wait(TICK_S):
                    yield self._universes(ended)
                meanwhile()

    def _universes(self, done: Done) -> list[Universe]:
        """What a task showed; where it never returned or killed its process, every schedule of it runs alone."""
        if not (done.died or done.hung):
            universes: list[Universe] = _value(done)
            return universes
        task: Record | Lockstep = done.task
        draws = task.draws if isinstance(task, Record) else [draw for draw, _, _ in task.recorded]
        return _refused(draws, done.hung or f"its process ended ({done.died})")

    def _tasks(self) -> Iterator[Record]:
        size = CHUNK if self.together else self._per_pack
        chunk: list[Draw] = []
        for number, draw in enumerate(self._draws):
            family = number // self._per_pack % self._families
            if chunk and (len(chunk) == size or chunk[0].family != family):
                yield self._task(chunk)
                chunk = []
            chunk.append(msgspec.structs.replace(draw, family=family, runner="v2"))
        if chunk:
            yield self._task(chunk)

    def _task(self, draws: list[Draw]) -> Record:
        return Record(tuple(draws), self._subject, None if self.together else self._per_pack, self._limit_s)


def _value(done: Done) -> list:  # type: ignore[type-arg]
    if done.error is not None:
        raise done.error
    if done.died or done.hung:
        raise InternalError(f"a worker that was recording {done.task} {done.died or done.hung}")
    return list(done.value)
