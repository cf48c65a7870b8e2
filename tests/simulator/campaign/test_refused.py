"""A schedule that the kernels' release refuses to serve is skipped and counted; it does not end the campaign."""

from __future__ import annotations

import pytest

from stalerow.simulator.campaign.trials import Trial
from stalerow.simulator.errors import UsageError
from stalerow.simulator.rank.released import RefusedLayout
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject


def refusing(error: Exception):
    def run(self: Subject, schedule: object, observer: object = None, order: object = None) -> None:
        raise error

    return run


def test_a_refused_layout_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "run", refusing(RefusedLayout("refuses the DS conv layout")))
    seen = Trial(Draw(1), Subject(kernels="reference:req-idx")).do()
    assert seen.skipped
    assert seen.violation is None


def test_other_bad_input_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "run", refusing(UsageError("no such layout")))
    with pytest.raises(UsageError, match="no such layout"):
        Trial(Draw(1), Subject(kernels="reference:req-idx")).do()
