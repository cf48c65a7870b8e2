"""The campaign's line, which says nothing that is not so."""

import io

from rich.console import Console

from stalerow.simulator.campaign.findings import Tally
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.commands.screen import campaign
from stalerow.simulator.subject.subject import Subject


def shown(monkeypatch, tally: Tally, doing: list[str]) -> str:
    err = io.StringIO()
    monkeypatch.setattr(campaign, "LINE_EVERY_S", 0.0)
    options = Options(subject=Subject(kernels="reference:req-idx"))
    screen = campaign.Screen(options, Console(file=io.StringIO()), Console(file=err, width=200))
    screen.tick(tally, doing)
    return err.getvalue()


def test_no_rate_is_told_while_only_shrinking_goes_on(monkeypatch):
    line = shown(monkeypatch, Tally(), ["stalerow replay 7"])
    assert "shrinking 1" in line
    assert "/s" not in line


def test_a_rate_is_told_while_schedules_are_run(monkeypatch):
    assert "/s" in shown(monkeypatch, Tally(schedules=5), [])
