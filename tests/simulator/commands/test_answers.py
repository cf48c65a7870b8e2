"""What every command writes with `--json` is its type, and nothing else is on standard output where it prints that."""

from pathlib import Path

import msgspec
import pytest

from stalerow.scenarios.command import ScenariosAnswer
from stalerow.scenarios.program import COMMANDS, main
from stalerow.simulator.commands import answers
from stalerow.simulator.commands.answers import ANSWERS, json_schema

ALL = {**ANSWERS, "scenarios": ScenariosAnswer}
REFERENCE = ("--kernels", "reference:batch-row")
SMALL = ("--requests", "2", "--steps", "5", "--prompt", "1", "--output", "2", "--workloads", "--jobs", "1")
SERVED = ("--num-prompts", "4", "--random-input-len", "40", "--random-output-len", "20", "--random-prefix-len", "0")

COMMAND_LINES = {
    "compare": ["compare", *REFERENCE, "--pp", "2", "--runner", "v2", "--seeds", "1,4:6", "--jobs", "1"],
    "run": ["run", "6", *REFERENCE, "--quiet"],
    "fuzz": ["fuzz", *REFERENCE, "--seeds", "4:7", "--jobs", "1"],
    "replay": ["replay", "6", *REFERENCE],
    "explore": ["explore", *REFERENCE, *SMALL],
    "conform": ["conform", "tests/data/traces/v033_01_P1_K0_lengths.json.gz"],
    "serve": ["serve", *REFERENCE, "-pp", "2", *SERVED, "--block-size", "16", "--jobs", "1"],
    "kernels": ["kernels", "list"],
    "explain": ["explain", "stale", "slot"],
    "failures": ["failures", "list"],
    "scenarios": ["scenarios", "run", "stale-row"],
}


def schema_of(answer: type[msgspec.Struct]) -> str:
    (schema,) = [str(field.default) for field in msgspec.structs.fields(answer) if field.name == "schema"]
    return schema


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch, request):
    (tmp_path / "tests").symlink_to(request.config.rootpath / "tests")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_what_a_command_writes_is_its_type(command, tmp_path, capsys):
    path = tmp_path / "answer.json"
    code = main([*COMMAND_LINES[command], "--json", str(path)])
    assert code in (0, 1), capsys.readouterr().err
    answer = msgspec.json.decode(path.read_bytes(), type=ALL[command])
    assert answer.schema == f"stalerow.{command}/1"
    assert msgspec.json.decode(msgspec.json.encode(answer)) == msgspec.json.decode(path.read_bytes())


def test_a_file_of_another_schema_is_refused(tmp_path):
    path = tmp_path / "answer.json"
    assert main(["kernels", "list", "--json", str(path)]) == 0
    with pytest.raises(msgspec.ValidationError, match="schema"):
        msgspec.json.decode(path.read_bytes(), type=answers.ExplainAnswer)


@pytest.mark.parametrize("command", ["kernels", "explain", "failures", "scenarios"])
def test_a_listing_prints_json_and_nothing_else(command, capsys):
    assert main([*COMMAND_LINES[command], "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=ALL[command])


def test_every_command_that_has_a_result_has_a_schema(capsys):
    assert set(COMMANDS) == set(ALL)
    for command in ALL:
        listing = ["list"] if command in ("kernels", "failures", "scenarios") else []
        with pytest.raises(SystemExit):
            main([command, *listing, "--help"])
        assert f"stalerow.{command}/1" in " ".join(capsys.readouterr().out.split())
        assert schema_of(ALL[command]) == f"stalerow.{command}/1"


def test_the_page_lists_every_schema(request):
    page = (request.config.rootpath / "simulator/docs/json.md").read_text()
    missing = [schema for schema in map(schema_of, ALL.values()) if f"`{schema}`" not in page]
    assert missing == []
    fields = [(name, f.name) for name, a in ALL.items() for f in msgspec.structs.fields(a) if f"`{f.name}`" not in page]
    assert fields == []


def test_other_languages_have_a_json_schema():
    for answer in ALL.values():
        made = json_schema(answer)
        (definition,) = [d for d in made["$defs"].values() if d.get("title") == answer.__name__]
        assert definition["properties"]["schema"]["enum"] == [schema_of(answer)]


def test_an_answer_says_what_the_text_says(tmp_path, capsys):
    main(["run", "6", *REFERENCE, "--quiet", "--json", "run.json"])
    said = capsys.readouterr().out
    ran = msgspec.json.decode((tmp_path / "run.json").read_bytes(), type=answers.RunAnswer)
    assert f"digest {ran.digest}" in said
    assert [f"{v.kind}: {v.explanation}" for v in ran.violations] == [
        line for line in said.splitlines() if line.startswith(tuple(f"{v.kind}: " for v in ran.violations) or ("\0",))
    ]
    main(["replay", "6", *REFERENCE, "--json", "replay.json"])
    (again,) = msgspec.json.decode((tmp_path / "replay.json").read_bytes(), type=answers.ReplayAnswer).replays
    assert (again.violations, again.digest) == (ran.violations, ran.digest)
    assert again.verdict == ("fails" if ran.violations else "clean")


def test_explore_says_which_bound_is_clean(tmp_path):
    line = ["explore", "--kernels", "reference:req-idx", *SMALL, "--json", "answer.json"]
    assert main(line) == 0
    clean = msgspec.json.decode((tmp_path / "answer.json").read_bytes(), type=answers.ExploreAnswer)
    assert clean.clean == clean.bounds
    assert main([*line[:2], "reference:batch-row", *line[3:]]) == 1
    failing = msgspec.json.decode((tmp_path / "answer.json").read_bytes(), type=answers.ExploreAnswer)
    assert (failing.clean, bool(failing.failures)) == (None, True)


def test_an_answer_that_cannot_be_written_is_one_line(capsys):
    Path("blocked").write_text("")
    assert main(["kernels", "list", "--json", "blocked/answer.json"]) == 2
    assert "cannot be written" in capsys.readouterr().err
