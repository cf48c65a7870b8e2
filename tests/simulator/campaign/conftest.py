"""What these tests share: a trial that failed, and its violation."""

import pytest

from stalerow.simulator.campaign.trials import Seen
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.draw import Draw


@pytest.fixture
def violation() -> Violation:
    return Violation(kind="stale slot", rank=1, launch="precopy", step=3, during=5, explanation="r0 has r1's column")


@pytest.fixture
def seen(violation) -> Seen:
    return Seen(Draw(7), violation, ("ab", "ab"), ("preemption",), True, 3, 40)
