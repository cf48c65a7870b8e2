"""`fuzz` from Python comes to what the command comes to, in this process or in others."""

import msgspec
import pytest

from stalerow.scenarios.program import main
from stalerow.simulator.testing import CampaignSummary, Subject, UsageError, fuzz

SUBJECT = Subject(kernels="reference:req-idx", faults=("dead-binding",))


def what(summary):
    return summary.schedules, summary.kinds, summary.marks, [(f.kind, f.launch) for f in summary.findings]


def test_it_comes_to_what_the_command_comes_to(tmp_path):
    here = fuzz(SUBJECT, range(3), folder=tmp_path / "here")
    answer = tmp_path / "answer.json"
    asked = ["fuzz", "--kernels", SUBJECT.kernels, "--fault", "dead-binding", "--seeds", "0:3", "--jobs", "1"]
    assert main([*asked, "--keep-going", "--failures", str(tmp_path / "there"), "--json", str(answer)]) == 1
    there = msgspec.json.decode(answer.read_bytes(), type=CampaignSummary)
    assert what(here) == what(there)
    assert len(here.findings) == 1
    names = [sorted(p.name for p in (tmp_path / folder).glob("*.json")) for folder in ("here", "there")]
    assert names[0] == names[1] != []


def test_a_subject_with_a_fault_fails_and_ends_at_once(tmp_path):
    summary = fuzz(SUBJECT, range(5), keep_going=False, folder=tmp_path)
    assert summary.subject == SUBJECT
    assert [f.kind for f in summary.findings] == ["dead binding"]
    assert summary.schedules < 5


def test_what_cannot_be_run_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="no seeds: give one at least"):
        fuzz("reference:req-idx", ())
    with pytest.raises(UsageError, match="jobs=-1: give the number of worker processes"):
        fuzz("reference:req-idx", (1,), jobs=-1)
    with pytest.raises(UsageError, match="no campaign with these options"):
        fuzz("reference:req-idx", (1,), folder=tmp_path, resume=True)
