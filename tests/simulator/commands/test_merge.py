"""Shards added up: the page says what one campaign over all seeds would have said, and names what is not there."""

import json
import re
import shutil
from html import unescape

import msgspec
import pytest

from stalerow.simulator.campaign.summary import CampaignSummary
from stalerow.simulator.commands.answers import MergeAnswer
from stalerow.simulator.commands.cli import main

FUZZ = ("fuzz", "--kernels", "reference:req-idx", "--fault", "null-state", "--runs", "6", "--keep-going", "--jobs", "1")


def run(folder, *options: str) -> CampaignSummary:
    folder.mkdir()
    told = folder / "fuzz.json"
    assert main([*FUZZ, *options, "--failures", str(folder / "failures"), "--json", str(told)]) == 1
    return msgspec.json.decode(told.read_bytes(), type=CampaignSummary)


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """A campaign as one, and in two shards: the folder with `whole`, `1` and `2`."""
    top = tmp_path_factory.mktemp("campaigns")
    run(top / "whole")
    for shard in ("1", "2"):
        run(top / shard, "--shard", f"{shard}/2")
    return top


@pytest.fixture
def here(campaigns, tmp_path, monkeypatch):
    """A copy of it somewhere else, so that no path in the files is right any more."""
    shutil.copytree(campaigns, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def whole(top) -> CampaignSummary:
    return msgspec.json.decode((top / "whole/fuzz.json").read_bytes(), type=CampaignSummary)


def test_the_shards_together_say_what_the_whole_campaign_says(here, capsys):
    assert main(["merge", "2/fuzz.json", "1/fuzz.json", "--html", "page/all.html", "--json", "all.json"]) == 1
    answer, one = msgspec.json.decode((here / "all.json").read_bytes(), type=MergeAnswer), whole(here)
    assert answer.schedules + answer.skipped == 6
    for name in ("schedules", "skipped", "kinds", "marks"):
        assert getattr(answer, name) == getattr(one, name)
    assert {(f.kind, f.launch) for f in answer.findings} == {(f.kind, f.launch) for f in one.findings}
    assert [(s.number, s.path) for s in answer.shards] == [(1, "1/fuzz.json"), (2, "2/fuzz.json")]
    assert answer.missing == ()
    text = unescape((here / "page/all.html").read_text())
    assert f"{len(answer.findings)} found: {one.schedules} schedules by 2 of 2 shards" in text
    links = [link for link in re.findall(r'<a href="([^"]*)"', text) if link.endswith((".json", ".html"))]
    assert sorted({link.rsplit(".")[-1] for link in links}) == ["html", "json"]
    assert all((here / "page" / link).exists() for link in links)
    assert all(finding.path in capsys.readouterr().out for finding in answer.findings[:1])


def test_a_shard_that_is_not_there_is_named_and_the_answer_is_not_clean(here, capsys):
    told = json.loads((here / "1/fuzz.json").read_text()) | {"findings": [], "kinds": {}}
    (here / "1/fuzz.json").write_text(json.dumps(told))
    assert main(["merge", "1/fuzz.json", "--html", "all.html"]) == 1
    said = "shard is not among the files, so nothing is known of their seeds: 2 of 2"
    assert said in " ".join(capsys.readouterr().out.split())
    assert said in (here / "all.html").read_text()


def test_journals_say_the_same(here, monkeypatch):
    for shard in ("1", "2"):
        (here / f"j{shard}").mkdir()
        monkeypatch.chdir(here / f"j{shard}")
        assert main([*FUZZ, "--shard", f"{shard}/2", "--failures", ".stalerow/failures"]) == 1
    monkeypatch.chdir(here)
    journals = [str(path) for path in here.glob("j*/.stalerow/campaigns/*.json")]
    assert main(["merge", *journals, "--json", "all.json"]) == 1
    answer, one = msgspec.json.decode((here / "all.json").read_bytes(), type=MergeAnswer), whole(here)
    for name in ("schedules", "skipped", "kinds", "marks"):
        assert getattr(answer, name) == getattr(one, name)


def _other_seed(told: dict) -> None:
    told["draw"]["seed"] = 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_other_seed, "of another campaign than 1/fuzz.json: draw"),
        (lambda told: told.update(shard=[1, 2]), "2/fuzz.json: is shard 1, as 1/fuzz.json is: leave one of them out"),
        (lambda told: told.pop("subject"), "2/fuzz.json: tells of no shard"),
        (lambda told: told["findings"][0].update(path="gone/x.json"), "names gone/x.json, which is not beside it"),
    ],
)
def test_what_does_not_belong_together_is_one_line(here, capsys, change, said):
    told = json.loads((here / "2/fuzz.json").read_text())
    change(told)
    (here / "2/fuzz.json").write_text(json.dumps(told))
    assert main(["merge", "1/fuzz.json", "2/fuzz.json", "--html", "all.html"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert said in err
    assert not (here / "all.html").exists()


def test_marks_that_no_shard_met_fail_where_that_is_asked(here, capsys):
    for shard in ("1", "2"):
        path = here / shard / "fuzz.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"findings": [], "kinds": {}}))
    assert main(["merge", "1/fuzz.json", "2/fuzz.json"]) == 0
    assert main(["merge", "1/fuzz.json", "2/fuzz.json", "--require-marks"]) == 1
    assert "failed: --require-marks was given" in capsys.readouterr().out
