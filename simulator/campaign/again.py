"""Whether saved failures still fail: each is run again in a worker process, which it may take down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.failures import Failure
from stalerow.simulator.campaign.workers import Workers
from stalerow.simulator.oracle.violations import Violation

Verdict = Literal[
    "fails in the same way", "fails differently", "no longer fails", "crashes", "not run", "fails", "clean"
]
"""The last two are of what had not been saved before; what lacks something that its faults need is not run."""


class Again(msgspec.Struct, frozen=True):
    """A saved failure to run once more."""

    path: str
    failure: Failure

    def __str__(self) -> str:
        return f"replay of {self.path}"


class Replayed(msgspec.Struct, frozen=True):
    """What came of running `path` again, a file or a seed. `was` and `now` are kinds of the first violation, "" for
    none. `violations` and `digest` are of the run of now, as far as it came to its end in this process."""

    path: str
    was: str
    now: str
    verdict: Verdict
    violations: tuple[Violation, ...] = ()
    digest: str = ""

    @property
    def fails(self) -> bool:
        return self.verdict not in ("no longer fails", "not run", "clean")


def do(task: Again) -> Replayed:
    """What workers run."""
    failure = task.failure
    if failure.subject.lacking(failure.schedule):
        return Replayed(task.path, failure.kind, "", "not run")
    outcome = failure.subject.run(failure.schedule)
    violations, digest = tuple(outcome.violations), outcome.digest
    if not violations:
        return Replayed(task.path, failure.kind, "", "no longer fails", digest=digest)
    first, then = violations[0], failure.violation
    same = then is not None and (first.kind, first.launch) == (then.kind, then.launch)
    verdict: Verdict = "fails in the same way" if same else "fails differently"
    return Replayed(task.path, failure.kind, first.kind, verdict, violations, digest)


def replay_all(paths: Sequence[Path], jobs: int) -> Iterator[Replayed]:
    """Every saved failure's verdict, in the order of `paths`. Raises what a worker raised."""
    tasks = [Again(str(path), failures.load(path).failure) for path in paths]
    with Workers(min(jobs, max(len(tasks), 1)), do) as workers:
        for done in workers.map(iter(tasks)):
            if done.error is not None:
                raise done.error
            if done.died or done.hung:
                kind = done.task.failure.kind
                same = kind == failures.CRASH and bool(done.died)
                yield Replayed(done.task.path, kind, "crash", "fails in the same way" if same else "crashes")
            else:
                yield done.value
