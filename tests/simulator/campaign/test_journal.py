"""A campaign that is killed goes on from its journal and comes to what one run comes to."""

import subprocess
import sys
from pathlib import Path

import pytest

from stalerow.simulator.campaign import failures, journal
from stalerow.simulator.campaign.fuzz import Campaign, Options
from stalerow.simulator.errors import UsageError
from stalerow.simulator.run.subject import Subject

SCRIPT = Path(__file__).with_name("killed_campaign.py")
SUBJECT = Subject(kernels="reference:req-idx")


def campaign(folder, results, *options):
    command = [sys.executable, str(SCRIPT), str(folder / "failures"), str(results), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def found(folder):
    return {path.name: failures.load(path).failure for path in failures.saved(folder / "failures")}


def test_a_campaign_killed_and_resumed_ten_times_gives_the_findings_of_one_run(tmp_path):
    whole = campaign(tmp_path / "whole", 10_000)
    assert whole.returncode == 0, whole.stderr
    kills, resume = 0, []
    while (part := campaign(tmp_path / "parts", 2 if kills < 10 else 10_000, *resume)).returncode == -9:
        kills, resume = kills + 1, ["--resume"]
    assert part.returncode == 0, part.stderr
    assert kills == 10
    assert part.stdout == whole.stdout
    assert len(found(tmp_path / "whole")) >= 1
    assert found(tmp_path / "parts") == found(tmp_path / "whole")


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
