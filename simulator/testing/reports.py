"""From a failed assertion to a saved failure: shrunk if the schedule came from a seed, and drawn.

A property's failing schedule has been shrunk by Hypothesis already; a seed's has not, and its kernels' NumPy twin can
shrink it in seconds.
"""

from __future__ import annotations

from pathlib import Path

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.failures import Failure
from stalerow.simulator.campaign.trials import Reduction, Seen
from stalerow.simulator.schedule.generate import genuine
from stalerow.simulator.testing.isolation import IsolationError


def failure_of(error: IsolationError, shrink: bool = True) -> tuple[Failure, str]:
    """The failure to save, and the drawing of what shrinking made of it ("" if it was not shrunk)."""
    outcome, subject, schedule = error.outcome, error.subject, error.schedule
    draw = schedule.draw
    violation = outcome.violations[0]
    as_it_is = Failure(
        kind=violation.kind,
        subject=subject,
        violation=violation,
        digest=outcome.digest,
        shrunk=draw is None,
        versions=failures.versions(),
        schedule=schedule,
    )
    if draw is None or error.kernel_set is not None or not genuine(schedule):
        return as_it_is, ""
    seen = Seen(draw, violation, (outcome.digest,), (), True, len(schedule.requests), outcome.decisions)
    finder = subject.twin(schedule.order.interleaves) or (subject if subject.kernels.startswith("reference:") else None)
    if shrink and finder is not None:
        reduced = Reduction(seen, subject, finder).do()
        if reduced.confirmed and not reduced.differing:
            return findings.shrunk(seen, subject, reduced), reduced.drawing
    return findings.unshrunk(seen, subject, ""), ""


def save_page(error: IsolationError, failure: Failure, path: Path, again: str) -> Path | None:
    """Write the page of a saved failure beside its file; returns where. `again` is the command that replays it.

    None where to make it could end the process, as in `failing_record`.
    """
    from stalerow.simulator.campaign.failing import failing_record
    from stalerow.simulator.draw.html import page
    from stalerow.simulator.files import write_beside

    assert failure.violation is not None
    run = None if error.kernel_set is None else error.run
    record = failing_record(failure.subject, failure.schedule, failure.violation.kind, again, run)
    if record is None:
        return None
    shown = path.with_suffix(".html")
    write_beside(shown, page([record]))
    return shown
