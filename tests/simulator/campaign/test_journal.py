"""A campaign that is killed goes on from its journal and comes to what one run comes to."""

import msgspec
import pytest

from stalerow.simulator.campaign import failures, fuzz, journal, shrink
from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.campaign.fuzz import Campaign
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.trials import do
from stalerow.simulator.errors import UsageError
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:req-idx")
SHORT = (76, 17, 52, 71, 39, 73, 54, 14, 64, 38, 5, 24)
"""Seeds of small schedules; the third and the seventh fail, each in a way of its own."""


class Kill(BaseException):
    """Ends a campaign as a kill does: nothing after it runs, nothing more is written."""


class Killed(Campaign):
    """Runs its tasks here, and is killed after so many results."""

    left = 10_000

    def _executor(self, notes):
        return InProcess(do)

    def _take(self, done):
        super()._take(done)
        self.left -= 1
        if not self.left:
            raise Kill


def campaign(folder, results, resume):
    asked = Options(
        subject=Subject(kernels="reference:batch-row"),
        runs=len(SHORT),
        seeds=SHORT,
        keep_going=True,
        folder=folder,
        resume=resume,
    )
    made = Killed(asked, Quiet())
    made.left = results
    return made.run()


def sums(tally):
    return tally.schedules, tally.kinds, tally.marks, tally.first_seen, [f.failure for f in tally.findings]


def found(folder):
    return {path.name: failures.load(path).failure for path in failures.saved(folder)}


def test_a_campaign_killed_and_resumed_ten_times_gives_the_findings_of_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "NOTE_S", 0.0)
    monkeypatch.setattr(shrink, "BUDGET", 4)
    monkeypatch.setattr("os.fsync", lambda file: None)  # no power is cut here, and it is asked for hundreds of times
    whole = campaign(tmp_path / "whole" / "failures", 10_000, False)
    settled = []
    for kill in range(10):
        # Of two results the first has been written down when the kill comes.
        with pytest.raises(Kill):
            campaign(tmp_path / "parts" / "failures", 2, bool(kill))
        (path,) = (tmp_path / "parts" / "campaigns").glob("*.json")
        settled.append(msgspec.json.decode(path.read_bytes())["settled"])
    parts = campaign(tmp_path / "parts" / "failures", 10_000, True)
    assert settled == sorted(settled)
    assert 0 < settled[-1] < len(SHORT)
    assert sums(parts) == sums(whole)
    assert len(whole.findings) == 2
    assert found(tmp_path / "parts" / "failures") == found(tmp_path / "whole" / "failures")


class Quiet:
    def __getattr__(self, name):
        return lambda *told: None


def options(tmp_path, **fields):
    return Options(subject=SUBJECT, folder=tmp_path / "failures", **{"runs": 3} | fields)


def test_a_campaign_that_is_over_stays_over(tmp_path):
    first = Campaign(options(tmp_path), Quiet()).run()
    again = Campaign(options(tmp_path, resume=True), Quiet()).run()
    assert (again.schedules, again.marks, again.first_seen) == (first.schedules, first.marks, first.first_seen)
    assert again.plateau == first.plateau < 3


def test_there_is_no_going_on_with_another_campaign(tmp_path):
    Campaign(options(tmp_path), Quiet()).run()
    with pytest.raises(UsageError, match="no campaign with these options"):
        Campaign(options(tmp_path, runs=4, resume=True), Quiet())
    path = journal.file_of(options(tmp_path))
    path.write_bytes(b"[]")
    with pytest.raises(UsageError, match="not a campaign's file"):
        Campaign(options(tmp_path, resume=True), Quiet())
