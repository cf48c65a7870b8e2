"""From a failed assertion to a saved failure: shrunk if the schedule came from a seed, and drawn.

A property's failing schedule has been shrunk by Hypothesis already; a seed's has not, and its kernels' NumPy twin can
shrink it in seconds.
"""

from __future__ import annotations

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.failures import Failure
from stalerow.simulator.campaign.trials import Reduction, Seed, Seen
from stalerow.simulator.schedule.generate import Runner
from stalerow.simulator.testing.isolation import IsolationError


def failure_of(error: IsolationError, shrink: bool = True) -> tuple[Failure, str]:
    """The failure to save, and the drawing of what shrinking made of it ("" if it was not shrunk)."""
    outcome, subject, schedule = error.outcome, error.subject, error.schedule
    violation = outcome.violations[0]
    as_it_is = Failure(
        kind=violation.kind,
        subject=subject,
        violation=violation,
        digest=outcome.digest,
        shrunk=schedule.seed is None,
        versions=failures.versions(),
        schedule=schedule,
    )
    if schedule.seed is None:
        return as_it_is, ""
    seed = Seed(schedule.seed, *_overrides(error))
    if seed.schedule() != schedule:
        return as_it_is, ""
    seen = Seen(seed, violation, (outcome.digest,), (), True, len(schedule.requests), outcome.decisions)
    finder = subject.twin() or (subject if subject.kernels.startswith("reference:") else None)
    if shrink and finder is not None and error.kernel_set is None:
        reduced = Reduction(seen, subject, finder).do()
        if reduced.confirmed and not reduced.differing:
            return findings.shrunk(seen, subject, reduced), reduced.drawing
    return findings.unshrunk(seen, subject, ""), ""


def _overrides(error: IsolationError) -> tuple[int | None, Runner | None]:
    """The pipeline size and runner that were forced on the seed, if they were."""
    pipeline = error.schedule.pipeline
    assert error.schedule.seed is not None
    drawn = Seed(error.schedule.seed).schedule().pipeline
    pp = pipeline.pp if pipeline.pp != drawn.pp else None
    runner = pipeline.runner if pipeline.runner != drawn.runner else None
    return pp, runner
