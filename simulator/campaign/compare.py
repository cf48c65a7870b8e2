"""The same schedules through several kernel sets, side by side: one row per setting and kernel set.

Tasks are single runs, spread over worker processes; results come back small and are summed here, so the order in which
they finish does not matter.
"""

from __future__ import annotations

import atexit
import functools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stalerow.simulator.campaign.failures import CRASH, HANG
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.workers import Workers
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject

if TYPE_CHECKING:
    from stalerow.simulator.run.outcome import FaultUse
    from stalerow.simulator.run.simulation import EngineFactory

CHUNK = 8


class Setting(NamedTuple):
    """One row of the table. `draw` is that of the first seed; `python`, if given, is that of an environment whose vLLM
    schedules instead of our engine."""

    subject: Subject
    draw: Draw
    python: str = ""

    @property
    def engine(self) -> str:
        return f"{'vllm' if self.python else 'own'} {self.draw.profile or ''}".rstrip()

    def at(self, seed: int) -> Draw:
        return msgspec.structs.replace(self.draw, seed=seed)

    def command(self, seed: int) -> str:
        """The command that shows the run of a seed, event by event."""
        engine = f" --engine vllm --python {shlex.quote(self.python)}" if self.python else ""
        return f"{self.at(seed).command(self.subject, 'run')}{engine}"


class First(msgspec.Struct, frozen=True):
    """The violating schedule with the lowest seed. `command` shows it again."""

    draw: Draw
    kind: str
    rank: int
    launch: str
    deferred: bool
    explanation: str
    command: str


class Row(msgspec.Struct):
    """Sums over the schedules of one setting; `kinds` counts each schedule's first violation.

    `refused` counts schedules whose memory layout the kernels' own release would not serve, `skipped` those that lack
    what a fault needs; neither are run. `runner_only` counts those that the release's runner fails and its kernels do
    not: they are not among the violating ones.
    """

    kernels: str
    pp: int
    runner: str
    engine: str = "own"
    faithful: bool = False
    faults: tuple[str, ...] = ()
    schedules: int = 0
    refused: int = 0
    skipped: int = 0
    violating: int = 0
    runner_only: int = 0
    kinds: dict[str, int] = msgspec.field(default_factory=dict)
    marks: dict[str, int] = msgspec.field(default_factory=dict)
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    first: First | None = None

    @classmethod
    def of(cls, setting: Setting) -> Row:
        subject, draw = setting.subject, setting.draw
        assert draw.pp is not None
        assert draw.runner is not None
        name = str(subject) if subject.worker else subject.kernels
        return cls(name, draw.pp, draw.runner, setting.engine, draw.faithful, subject.faults)

    def add(self, result: Result) -> None:
        if result.refused or result.skipped:
            self.refused += result.refused
            self.skipped += result.skipped
            return
        self.schedules += 1
        self.runner_only += result.runner_only
        for name, count in result.marks.items():
            self.marks[name] = self.marks.get(name, 0) + count
        if result.first is None:
            return
        self.violating += 1
        kind, rank = result.first.kind, str(result.first.rank)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.ranks[rank] = self.ranks.get(rank, 0) + 1
        if self.first is None or result.first.draw.seed < self.first.draw.seed:
            self.first = result.first


@dataclass(frozen=True, slots=True)
class Result:
    """What one run sends back."""

    setting: Setting
    seed: int
    digest: str
    marks: dict[str, int]
    first: First | None
    refused: bool = False
    skipped: bool = False
    runner_only: bool = False
    faults: tuple[FaultUse, ...] = ()


def run_seeds(setting: Setting, seeds: Sequence[int]) -> list[Result]:
    """Run a few seeds in this process. The kernel set is made once per process and name."""
    return [_run_one(setting, seed) for seed in seeds]


def _run_one(setting: Setting, seed: int) -> Result:
    from stalerow.simulator.faults import resolve
    from stalerow.simulator.rank.released import RefusedLayout

    subject, schedule = setting.subject, from_draw(setting.at(seed))
    if lacking := subject.lacking(schedule):
        return Result(setting, seed, "", {}, None, skipped=True, faults=lacking)
    try:
        if subject.worker:
            outcome = subject.run(schedule)
        else:
            outcome = resolve(subject.faults).run(schedule, subject.load(), engine=_engines(setting.python))
    except RefusedLayout:
        return Result(setting, seed, "", {}, None, refused=True)
    first = None
    if outcome.by_kernels:
        v = outcome.by_kernels[0]
        first = First(setting.at(seed), v.kind, v.rank, v.launch, v.deferred, v.explanation, setting.command(seed))
    runner_only = not outcome.clean and first is None
    return Result(setting, seed, outcome.digest, outcome.marks, first, runner_only=runner_only, faults=outcome.faults)


@functools.cache
def _engines(python: str) -> EngineFactory | None:
    """The installed scheduler, started once per process and ended with it; None for our own engine."""
    if not python:
        return None
    from stalerow.simulator.conform.engine import ReleasedEngines

    engines = ReleasedEngines(python)
    atexit.register(engines.close)
    return engines.__enter__()


def results(
    settings: Sequence[Setting], seeds: Sequence[int], jobs: int = 1, limit_s: float | None = None
) -> Iterator[Result]:
    """Results of every setting and seed, in the order in which they finish. A task may take `limit_s` seconds."""
    tasks = [(setting, seeds[i : i + CHUNK]) for i in range(0, len(seeds), CHUNK) for setting in settings]
    tasks = [(s, part) for s, chunk in tasks for part in _split(s, chunk)]
    if jobs == 1 and all(setting.subject.harmless for setting in settings):
        for setting, part in tasks:
            yield from run_seeds(setting, part)
        return
    suspects: list[tuple[Setting, Sequence[int]]] = []
    with Workers(jobs, _run_task, limit_s=limit_s) as workers:
        for done in workers.map((setting, tuple(part)) for setting, part in tasks):
            setting, part = done.task
            how = done.died or done.hung
            if how and len(part) > 1:
                suspects += [(setting, (seed,)) for seed in part]
            else:
                yield from _taken(done)
        # One of a task's seeds took the process down: each by itself says which.
        for done in workers.map(iter(suspects)):
            yield from _taken(done)


def _run_task(task: tuple[Setting, Sequence[int]]) -> list[Result]:
    return run_seeds(*task)


def _taken(done: Done) -> list[Result]:
    """The results of a task; a lost one has a single seed."""
    if done.died or done.hung:
        setting, (seed,) = done.task
        return [_lost(setting, seed, done)]
    if done.error is not None:
        raise done.error
    results: list[Result] = done.value
    return results


def _lost(setting: Setting, seed: int, done: Done) -> Result:
    """A run that kills its process, or never returns, is a finding."""
    kind = CRASH if done.died else HANG
    how = f"killed its process ({done.died})" if done.died else done.hung
    text = f"seed {seed} with {setting.subject} {how}, twice"
    first = First(setting.at(seed), kind, -1, "process", False, text, setting.command(seed))
    return Result(setting, seed, "", {}, first)


def _split(setting: Setting, chunk: Sequence[int]) -> list[Sequence[int]]:
    """Interpreted runs are slow enough to be tasks of their own."""
    if setting.subject.kernels.startswith("reference:"):
        return [chunk]
    return [chunk[i : i + 1] for i in range(len(chunk))]
