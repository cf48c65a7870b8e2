"""What is found is told first, saved once, and known from then on."""

import pytest

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.filing import Filing
from stalerow.simulator.campaign.findings import Tally
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.trials import Reduction
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")


class Told:
    """Keeps what it is told, and what was saved by then."""

    def __init__(self, folder):
        self.folder, self.findings, self.breaches, self.notes, self.saved = folder, [], [], [], []

    def finding(self, finding):
        self.findings.append(finding)
        self.saved.append(failures.saved(self.folder) if self.folder.is_dir() else [])

    def breach(self, finding):
        self.breaches.append(finding)

    def note(self, text):
        self.notes.append(text)

    def tick(self, tally, doing):
        raise AssertionError("not a filing's to tell")


@pytest.fixture
def told(tmp_path):
    return Told(tmp_path / "failures")


def filing(told, **options) -> tuple[Filing, Tally]:
    tally = Tally()
    return Filing(Options(SUBJECT, folder=told.folder, **options), told, tally), tally


def test_a_finding_is_told_before_it_is_saved_and_ends_the_campaign(told, seen):
    filed, tally = filing(told)
    failure = findings.unshrunk(seen, SUBJECT, "")
    filed.found(failure, "a drawing", 12)
    assert told.saved == [[]]
    (finding,) = tally.findings
    assert told.findings == [finding]
    assert (finding.drawing, finding.runs) == ("a drawing", 12)
    assert failures.load(finding.path).failure == failure
    assert filed.over


def test_a_campaign_that_keeps_going_is_not_over(told, seen):
    filed, _ = filing(told, keep_going=True)
    filed.found(findings.unshrunk(seen, SUBJECT, ""))
    filed.breach(Draw(1), SUBJECT, None, ("a", "b"), parting="at the end")
    assert not filed.over


def test_only_the_first_of_a_kind_is_new(told):
    filed, _ = filing(told)
    assert filed.new("torn copy", "precopy")
    assert not filed.new("torn copy", "precopy")
    assert filed.new("torn copy", "postprocess")


def test_a_breach_is_told_once_with_the_digests_that_differ(told):
    filed, tally = filing(told)
    for _ in range(2):
        filed.breach(Draw(1), SUBJECT, None, ("aa", "bb"), parting="they part at decision 3")
    (breach,) = tally.breaches
    assert told.breaches == [breach]
    assert breach.failure.kind == "determinism breach"
    assert breach.failure.note == "runs of one schedule gave digests aa, bb; they part at decision 3"
    assert tally.findings == []


def test_what_cannot_be_saved_is_said_and_not_lost(told, seen, tmp_path):
    told.folder.parent.joinpath("failures").write_text("a file where the folder should be")
    filed, tally = filing(told)
    filed.found(findings.unshrunk(seen, SUBJECT, ""))
    assert len(tally.findings) == 1
    (note,) = told.notes
    assert note.startswith("NOT SAVED: ")
    assert note.endswith("the seed's command makes it again")


def test_an_interrupted_shrinking_is_saved_as_found(told, seen):
    filed, tally = filing(told)
    filed.unfinished([Reduction(seen, SUBJECT, SUBJECT)])
    (path,) = failures.saved(told.folder)
    assert failures.load(path).failure.note == "interrupted before it was shrunk"
    assert told.notes == [f"interrupted while shrinking; saved as found: {path}"]
    assert tally.findings == []
