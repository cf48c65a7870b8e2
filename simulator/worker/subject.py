"""One schedule through the engine's own worker, to the same `Outcome` as a run of our own ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from stalerow.simulator.draw.record import Event
from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.oracle.kinds import Kind
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.outcome import Outcome
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.worker import protocol
from stalerow.simulator.worker.environment import environment
from stalerow.simulator.worker.process import child
from stalerow.simulator.worker.served import served


def ask(
    worker: str,
    python: str,
    schedule: Schedule,
    first_only: bool = False,
    record: bool = False,
    rank_steps: bool = False,
) -> protocol.Ran:
    """Run a schedule as it can be served. Raises `UsageError` where the engine refuses it."""
    made = served(schedule)
    engine = child(environment(worker, python))
    answer = engine.ask(protocol.Run(schedule=made, first_only=first_only, record=record, rank_steps=rank_steps))
    match answer:
        case protocol.Ran():
            return answer
        case protocol.Refused():
            raise UsageError(f"{worker} refuses the schedule: {answer.reason}")
        case protocol.Lost() if answer.how.startswith("exited"):
            raise InternalError(f"the engine's process {answer.how}: {engine.last_words()}")
        case protocol.Lost():
            kind: Kind = "out of bounds" if answer.how.startswith("killed") else "engine raised"
            text = f"the process that runs {worker} {answer.how}"
            lost = Violation(kind=kind, rank=-1, launch="process", step=0, during=0, explanation=text)
            return protocol.Ran((lost,), {}, "0" * 32, 0, (), 0, 0.0, 0.0)
        case protocol.Hello() | protocol.Failed():
            raise InternalError(f"{worker} answered {answer} to a schedule")


@runtime_checkable
class Recording(Protocol):
    """Who shows a run."""

    def ran(self, events: Sequence[Event], lookup: Literal["slot", "row"]) -> None:
        """What a worker did, and by what its copy kernels find a table's row."""


def run(worker: str, python: str, schedule: Schedule, observer: object = None) -> Outcome:
    """The outcome of a run, up to its first violation. A `Recording` observer is given what came back."""
    ran = ask(worker, python, schedule, first_only=True, record=isinstance(observer, Recording))
    if isinstance(observer, Recording):
        observer.ran(ran.events, ran.lookup)
    return Outcome(
        schedule=schedule,
        kernels=worker,
        violations=ran.violations,
        marks=ran.marks,
        digest=ran.digest,
        memory=ran.digest,
        steps=ran.steps,
        taken=ran.taken,
        stopped=ran.stopped,
    )
