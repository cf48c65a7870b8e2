"""Pages of what commands measured: the table, links that lead somewhere, two runs side by side."""

import html
import json
import re

import pytest

from stalerow.simulator.commands.cli import main


def cells(text: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    return [[re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def embedded(text: str) -> dict:
    """What the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_compare_shows_its_table_and_two_runs_of_the_first_violating_schedule(tmp_path):
    sets = ["reference:batch-row", "reference:req-idx"]
    command = ["compare", "--kernels", *sets, "--runner", "v2", "--pp", "2", "--seeds", "0:13", "--jobs", "1"]
    assert main([*command, "--html", "compare.html", "--json", "compare.json"]) == 1
    text = (tmp_path / "compare.html").read_text()
    rows = json.loads((tmp_path / "compare.json").read_text())["rows"]
    shown = {row[0]: row for row in cells(text) if row[0] in sets}
    for row in rows:
        assert shown[row["kernels"]][4:7] == [str(row["schedules"]), str(row["refused"]), str(row["violating"])]
    data = embedded(text)
    assert [r["kernels"] for r in data["records"]] == sets
    assert bool(data["records"][0].get("violations")) is True
    assert bool(data["records"][1].get("violations")) is False


def test_compare_without_a_violation_is_a_table_only(tmp_path):
    command = ["compare", "--kernels", "reference:req-idx", "--runner", "v2", "--pp", "2", "--seeds", "0:2"]
    assert main([*command, "--jobs", "1", "--html", "compare.html"]) == 0
    assert embedded((tmp_path / "compare.html").read_text()) == {"records": []}


def test_fuzz_links_what_it_saved_and_the_pages_beside_it(tmp_path):
    command = ["fuzz", "--kernels", "reference:req-idx", "--fault", "null-state", "--runs", "6", "--jobs", "1"]
    assert main([*command, "--html", "report/fuzz.html"]) == 1
    text = (tmp_path / "report/fuzz.html").read_text()
    links = [link for link in re.findall(r'<a href="([^"]*)"', text) if link.endswith((".json", ".html"))]
    assert sorted(link.rsplit(".")[-1] for link in links) == ["html", "json"]
    for link in links:
        assert (tmp_path / "report" / link).exists()
    assert "marks: schedules that had one" in text


def test_explore_shows_its_counts_and_links_what_it_found(tmp_path, capsys):
    bound = ["--requests", "1", "--pp", "1", "--steps", "4", "--prompt", "3", "--output", "3", "--jobs", "1"]
    command = ["explore", "--kernels", "reference:req-idx", "--fault", "null-state", *bound]
    assert main([*command, "--html", "explore.html"]) == 1
    text = (tmp_path / "explore.html").read_text()
    links = [link for link in re.findall(r'<a href="([^"]*)"', text) if link.endswith((".json", ".html"))]
    assert links
    assert all((tmp_path / link).exists() for link in links)
    counted = dict(row for row in cells(text) if len(row) == 2)
    printed = re.search(r"schedules?, (\d+) runs?, (\d+) decisions?", capsys.readouterr().out)
    assert (counted["runs"], counted["decisions visited"]) == tuple(f"{int(n):,}" for n in printed.groups())


def test_serve_shows_every_run_and_what_users_reported(tmp_path):
    command = ["serve", "--num-prompts", "4", "-pp", "2", "--random-input-len", "64", "--random-output-len", "16"]
    command += ["--random-prefix-len", "16", "--block-size", "16", "--num-gpu-blocks", "400", "--jobs", "1"]
    main([*command, "--html", "serve.html", "--json", "serve.json"])
    text = (tmp_path / "serve.html").read_text()
    runs = json.loads((tmp_path / "serve.json").read_text())["runs"]
    shown = [row for row in cells(text) if row[0].startswith("reference:")]
    assert [[row[0], row[3], row[12]] for row in shown] == [
        [run["kernels"], str(run["stuck"]), str(run["steps"])] for run in runs
    ]
    assert "14 to 33 %" in text


def test_serve_links_the_page_of_every_run_which_says_what_broke_first_and_what_it_has_not(tmp_path):
    command = ["serve", "--num-prompts", "12", "-pp", "2", "--random-input-len", "64", "--random-output-len", "40"]
    command += ["--random-prefix-len", "16", "--block-size", "16", "--num-gpu-blocks", "400", "--ignore-eos"]
    command += ["--max-num-batched-tokens", "64", "--jobs", "1"]
    assert main([*command, "--html", "report/serve.html", "--json", "serve.json"]) == 1
    links = re.findall(r'<a href="([^"]*)">page \d<', (tmp_path / "report/serve.html").read_text())
    broken, healthy = (tmp_path / "report" / link for link in links)
    runs = json.loads((tmp_path / "serve.json").read_text())["runs"]
    step, request = runs[0]["first_damage"]
    texts = [html.unescape(path.read_text()) for path in (broken, healthy)]
    verdicts = [re.findall(r'<section class="(.*?)</section>', text)[0] for text in texts]
    assert verdicts[0].startswith('verdict bad"><h2>broken</h2>')
    assert f"The first forward that met damage was {request}'s, in step {step}." in verdicts[0]
    assert verdicts[1].startswith('verdict"><h2>clean</h2>')
    assert all("No oracle looked at this run's memory" in verdict for verdict in verdicts)
    (record,) = embedded(broken.read_text())["records"]
    launch = record["events"][record["unwatched"]["event"] - 1][-1]
    assert (launch["launch"], launch["step"]) == ("sample", step)
    assert request in [seat["request"] for seat in launch["rows"]]
    assert _steps(broken) == {*range(max(step - 12, 1), step + 4)}
    assert _steps(healthy) == {*range(runs[1]["steps"] - 12, runs[1]["steps"] + 1)}


def _steps(path) -> set[int]:
    """The steps that a page's events belong to."""
    (record,) = embedded(path.read_text())["records"]
    return {event[-1]["step"] for event in record["events"]}


def test_serve_writes_the_trace_of_one_run_and_refuses_several(tmp_path, capsys):
    command = ["serve", "--num-prompts", "4", "-pp", "2", "--random-input-len", "64", "--random-output-len", "16"]
    command += ["--random-prefix-len", "16", "--block-size", "16", "--num-gpu-blocks", "400", "--jobs", "1"]
    assert main([*command, "--trace", "t.json"]) == 2
    assert "--trace t.json: is of one run and this makes 2" in capsys.readouterr().err
    assert main([*command, "--kernels", "reference:req-idx", "--trace", "t.json", "--json", "serve.json"]) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    run = json.loads((tmp_path / "serve.json").read_text())["runs"][0]
    slices = [e for e in events if e["ph"] == "X"]
    assert sum(e["name"].startswith("schedule ") for e in slices) == run["steps"]
    assert max(e["ts"] + e["dur"] for e in slices) <= run["duration_s"] * 1e6 + 60_000
    forwards = [e for e in slices if e["name"] == "forward"]
    assert {e["pid"] for e in forwards} == {2, 3}
    starts = [e["ts"] for e in forwards if e["pid"] == 2]
    # The ranks work side by side: one starts while the other has not ended.
    assert any(e["ts"] < s < e["ts"] + e["dur"] for s in starts for e in forwards if e["pid"] == 3)


def test_a_file_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["run", "0", "--kernels", "reference:req-idx", "--quiet", "--html", "file/x.html"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "file/x.html: cannot be written" in err
