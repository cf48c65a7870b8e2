"""A campaign's summary for other programs says what the tally says."""

import msgspec

from stalerow.simulator.campaign import findings
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.summary import CampaignSummary, Saved, of_campaign
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")


def test_a_summary_reads_back_equal_and_names_every_file(seen, tmp_path):
    tally = Tally(skipped=2)
    tally.count(("preemption",), "stale slot")
    tally.findings.append(Finding(findings.unshrunk(seen, SUBJECT, ""), tmp_path / "a.json"))
    tally.breaches.append(
        Finding(findings.breach(Draw(1), SUBJECT, None, "", "determinism breach"), tmp_path / "b.json")
    )
    made = of_campaign(Options(SUBJECT, Draw(5)), tally)
    assert made.findings == [Saved("stale slot", "precopy", str(tmp_path / "a.json"))]
    assert made.breaches == [Saved("determinism breach", "", str(tmp_path / "b.json"))]
    assert (made.subject, made.draw, made.schedules, made.skipped) == (SUBJECT, Draw(5), 1, 2)
    assert (made.kinds, made.marks, made.plateau) == ({"stale slot": 1}, {"preemption": 1}, 0)
    assert "preemption" not in made.missed
    assert msgspec.json.decode(msgspec.json.encode(made), type=CampaignSummary) == made
