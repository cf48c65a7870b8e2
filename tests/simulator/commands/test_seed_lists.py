"""Seeds are given as a range, a list or a file; each is tried once, in the order given."""

import argparse

import msgspec
import pytest

from stalerow.scenarios.program import main
from stalerow.simulator.campaign.summary import CampaignSummary
from stalerow.simulator.commands.options import seed_list


def test_a_range_stays_a_range():
    assert seed_list("0:1000000000000") == range(1_000_000_000_000)


def test_a_list_mixes_seeds_and_ranges_and_takes_each_once():
    assert list(seed_list("3,7,9:12,10,3")) == [3, 7, 9, 10, 11]


def test_a_file_has_lines_and_comments(tmp_path):
    path = tmp_path / "seeds.txt"
    path.write_text("# failing last week\n17, 4:6\n\n9  # slow\n")
    assert list(seed_list(str(path))) == [17, 4, 5, 9]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5:3", "'5:3' is not a range"),
        ("3,,4", "'' is not a number"),
        ("3,4:x", "neither seeds"),
        ("0:2,0:9000000000", "more than 1,000,000 seeds"),
        ("none.txt", "nor a file of them"),
        ("99999999999999999999", "is not a number"),
    ],
)
def test_what_is_no_list_is_one_line(text, said):
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        seed_list(text)


def test_a_file_without_seeds_or_with_a_wrong_line_is_named(tmp_path):
    path = tmp_path / "seeds.txt"
    path.write_text("# nothing\n")
    with pytest.raises(argparse.ArgumentTypeError, match=r"seeds\.txt: no seeds"):
        seed_list(str(path))
    path.write_text("1\ntwo\n")
    with pytest.raises(argparse.ArgumentTypeError, match=r"seeds\.txt: 'two' is not a number"):
        seed_list(str(path))


def test_a_campaign_tries_the_seeds_that_are_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = ["fuzz", "--kernels", "reference:batch-row", "--jobs", "1", "--keep-going", "--json", "sums.json"]
    main([*line, "--seeds", "30,2:4"])
    sums = msgspec.json.decode((tmp_path / "sums.json").read_bytes(), type=CampaignSummary)
    assert (sums.schedules, sums.draw.seed) == (3, 30)
    assert "seeds    30 and 2 others" in capsys.readouterr().out
    assert main([*line, "--seeds", "30,2:4", "--resume"]) in (0, 1)
    assert main([*line, "--seeds", "30,2:5", "--resume"]) == 2
    assert main([*line, "--seeds", "30,2:4", "--runs", "5"]) == 2
    assert "--runs with --seeds" in capsys.readouterr().err
