"""Every kind of violation and every mark has a page that says what it should, and `stalerow explain` finds it."""

import re
from importlib.resources import files

import pytest

from stalerow.simulator.commands.cli import main
from stalerow.simulator.draw import words
from stalerow.simulator.oracle.kinds import KINDS, PAGES
from stalerow.simulator.oracle.violations import MARKS

PARTS = {
    "violation": ("What it means", "Usual cause", "Public bugs that looked like this", "Look at next"),
    "mark": ("What it means", "Why it is counted", "Public bugs that need it", "Look at next"),
}


@pytest.mark.parametrize("name", [*KINDS, *words.CAMPAIGN_KINDS, *MARKS])
def test_a_page_has_all_its_parts(name):
    text = words.markdown(name)
    assert text.startswith(f"# {name}\n")
    parts = re.findall(r"^\*\*([^*]+)\.\*\* (\S.*)", text, re.MULTILINE)
    assert tuple(title for title, _ in parts) == PARTS["mark" if name in MARKS else "violation"]
    assert all(len(said) > 8 for _, said in parts)


def test_no_page_is_without_a_name():
    folder = files("stalerow.simulator.draw") / "meanings"
    slugs = {re.sub(r"[^a-z0-9]+", "-", name.lower()) for name in words.names() if name not in KINDS}
    assert set(PAGES) == set(KINDS)
    assert {page.name.removesuffix(".md") for page in folder.iterdir()} == slugs


@pytest.mark.parametrize("asked", [["cross-request", "copy"], ["Cross-request copy"], ["cross-request-copy"]])
def test_explain_draws_the_page(asked, capsys):
    assert main(["explain", *asked]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Usual cause." in out
    assert "vLLM #55506" in out


def test_explain_alone_lists_everything(capsys):
    assert main(["explain"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for name in words.names():
        assert name in out


def test_an_unknown_kind_names_the_nearest(capsys):
    assert main(["explain", "cros-request", "copie"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "did you mean 'cross-request copy'" in err


def test_the_five_minutes_begin_with_a_finding_that_looks_as_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = words.markdown("reading a finding")
    (command,) = re.findall(r"`stalerow (replay \d[^`]*)`", text)
    assert main(command.split()) == 1
    out = capsys.readouterr().out
    shown = re.search(r"\*\*2\..*?\*\*4\.", text, re.DOTALL)[0]
    quoted = re.findall(r"`((?:r\d|of|table|~|hit|!!)[^`]*)`", shown)
    assert len(quoted) >= 7
    assert [said for said in quoted if said not in out] == []
