"""Whoever breaks a run is named: a kernel that raises, an engine that breaks its rules."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.engine.core import EngineCore
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.violations import ENGINE
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.subject.subject import Subject


def line_of_the_bug() -> int:
    import stalerow_doubles

    lines = Path(stalerow_doubles.__file__).read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if "a bug in the kernels" in line)


@pytest.mark.parametrize("seed", range(4))
def test_a_kernel_that_raises_is_a_violation_with_its_file_and_line(doubles: str, seed: int) -> None:
    outcome = Subject(kernels="stalerow_doubles:raises").run(from_seed(seed))
    (violation,) = outcome.violations
    assert (violation.kind, violation.launch) == ("kernel raised", "precopy")
    place = f"stalerow_doubles.py:{line_of_the_bug()}"
    assert violation.explanation.startswith(f"kernel raised ZeroDivisionError at {place} in precopy of step 1")
    assert violation.explanation.endswith(": a bug in the kernels")
    assert outcome.stopped == "kernel raised"


class Foreign(EngineCore):
    """Prefills tokens that are not the request's."""

    def schedule(self) -> Step:
        step = super().schedule()
        new = tuple(msgspec.structs.replace(n, prefill_token_ids=(*n.prefill_token_ids[:-1], -5)) for n in step.new)
        return msgspec.structs.replace(step, new=new)


class Asserting(EngineCore):
    """Runs into an assertion of its own at the third step."""

    def schedule(self) -> Step:
        step = super().schedule()
        assert step.number < 3, "three is too many"
        return step


@pytest.mark.parametrize(("engine", "says"), [(Foreign, "foreign tokens"), (Asserting, "three is too many")])
def test_an_engine_that_breaks_its_own_rules_is_a_violation(engine: Any, says: str) -> None:
    schedule: Schedule = from_seed(7)
    outcome = run(
        schedule, kernel_set("reference:req-idx"), engine=lambda config: engine(config, schedule.pipeline.profile)
    )
    (violation,) = outcome.violations
    assert (violation.kind, violation.rank, violation.launch) == ("broken rule", ENGINE, "schedule")
    assert says in violation.explanation
