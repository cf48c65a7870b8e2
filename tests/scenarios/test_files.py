"""Scenario files: they come back as written, and what is wrong with one is said in one line."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from stalerow.scenarios import FOLDER, Expectation, Measured, Scenario, catalogue, load, parse
from stalerow.scenarios.writer import to_toml
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.generate import from_seed

GOOD = to_toml(
    Scenario(
        name="mine",
        id="mine",
        title="A title",
        text="Two lines,\nwith a 'quote' and a \\.\n",
        reports=("vllm#1",),
        faults=("stale-accept",),
        expect=Expectation(kinds=("stale slot",), launch="forward", says=r"num_accepted \d"),
        measured=Measured(date=datetime.date(2026, 1, 2), starts=20, found=20, median=3, worst=9),
        schedule=from_seed(1),
    )
)


@pytest.mark.parametrize("seed", range(25))
def test_a_schedule_survives_its_file(seed: int) -> None:
    base = parse(GOOD, "mine.toml")
    scenario = Scenario(**{f: getattr(base, f) for f in base.__struct_fields__} | {"schedule": from_seed(seed)})
    assert parse(to_toml(scenario), "mine.toml") == scenario


def test_the_catalogue_is_written_as_the_writer_writes_it() -> None:
    for scenario in catalogue().values():
        assert parse(to_toml(scenario), scenario.name) == scenario


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"stale slot"', '"stale slots"', "expect.kinds has 'stale slots': known are cross-request copy"),
        ("format = 1\nname", "format = 9\nname", "scenario format 9 is unknown: this release reads 1"),
        ("title = ", "titel = ", "unknown field `titel`"),
        ('name = "mine"', "name = mine", "not valid TOML"),
        ("[expect]", "[expected]", "not a scenario"),
        ('id = "r0"', 'id = "r1"', "schedule: request id 'r1' occurs 2 times"),
        ("[schedule]", 'status = "not modelled"\n[schedule]', "not a scenario"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError, match=r"^bad.toml: ") as raised:
        parse(GOOD.replace(old, new, 1), "bad.toml")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_scenario_that_is_not_modelled_has_no_schedule() -> None:
    text = 'format = 1\nname = "a"\nid = "b"\ntitle = "c"\ntext = "d"\n'
    assert parse(text + 'status = "not modelled"\n', "a.toml").schedule is None
    with pytest.raises(UsageError, match="give both, or status = 'not modelled'"):
        parse(text, "a.toml")


def test_a_missing_file_and_a_misnamed_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.toml")
    (tmp_path / "other.toml").write_text(GOOD)
    with pytest.raises(UsageError, match="give file and scenario the same name"):
        catalogue(tmp_path)


def test_the_annotated_example_is_a_scenario() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    scenario = parse(example, "README.md")
    assert scenario.measured is not None
    assert scenario.schedule is not None
    assert scenario.schedule.limits.retention_interval is None
