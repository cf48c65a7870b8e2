"""The record of a saved failure, for its page: by the kernels' NumPy twin, far faster, where that fails too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stalerow.simulator.draw.recorder import recorded
from stalerow.simulator.subject.subject import REFERENCE

if TYPE_CHECKING:
    from stalerow.simulator.draw.record import Record
    from stalerow.simulator.oracle.kinds import Kind
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.schedule.values import Schedule
    from stalerow.simulator.subject.subject import Subject


def failing_record(
    subject: Subject, schedule: Schedule, kind: Kind, again: str, run: Callable[..., Outcome] | None = None
) -> Record | None:
    """Record `schedule`, which `subject` failed with `kind`; `run` runs it in its place, by kernels that have no twin.

    None where kernels went out of bounds and no twin shows it: to run them once more could end this process.
    """
    twin = subject.twin(schedule.order.interleaves) if run is None else None
    if twin is not None:
        record = recorded(schedule, twin.run, str(subject), again)
        if record.violations and record.violations[0].kind == kind:
            return record
    # NumPy checks every index, and a worker runs in a process of its own.
    safe = subject.worker or subject.kernels.startswith(REFERENCE)
    if kind == "out of bounds" and run is None and not safe:
        return None
    return recorded(schedule, run or subject.run, str(subject), again)
