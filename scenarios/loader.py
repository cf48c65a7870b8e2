"""Scenario files to scenarios: reading, validating, and finding those that come with the package.

TOML has no null; in a schedule the text "none" stands for it (a retention interval of "none" keeps every boundary).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from stalerow.scenarios.scenario import FORMAT, Scenario
from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import parse_data, read_data
from stalerow.simulator.oracle.kinds import KINDS
from stalerow.simulator.schedule.file import modern, with_nulls
from stalerow.simulator.schedule.values import validate

FOLDER = Path(__file__).parent


@functools.cache
def catalogue(folder: Path = FOLDER) -> Mapping[str, Scenario]:
    """The scenarios of a folder by name. Raises `UsageError` naming a file that does not validate."""
    found = {}
    for path in sorted(folder.glob("*.toml")):
        scenario = load(path)
        if scenario.name != path.stem:
            raise UsageError(f"{path}: name is {scenario.name!r}: give file and scenario the same name")
        found[scenario.name] = scenario
    return found


def load(path: str | os.PathLike[str]) -> Scenario:
    """Read one scenario file. Raises `UsageError`."""
    return _scenario(read_data(path, "a scenario file"), str(path))


def parse(text: str, source: str) -> Scenario:
    """A scenario from the text of its file; `source` names it in errors."""
    return _scenario(parse_data(text.encode(), source, toml=True), source)


def _scenario(data: Any, source: str) -> Scenario:
    if not isinstance(data, dict):
        raise UsageError(f"{source}: not a scenario: expected a table of fields")
    if data.get("format", FORMAT) != FORMAT:
        raise UsageError(f"{source}: scenario format {data['format']} is unknown: this release reads {FORMAT}")
    if "schedule" in data:
        data["schedule"] = modern(with_nulls(data["schedule"]))
    try:
        scenario = msgspec.convert(data, Scenario, strict=True)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise UsageError(f"{source}: not a scenario: {' '.join(str(error).split())}") from None
    _check(scenario, source)
    return scenario


def _check(scenario: Scenario, source: str) -> None:
    if scenario.status == "not modelled":
        if scenario.schedule is not None or scenario.expect is not None:
            raise UsageError(f"{source}: status is 'not modelled': leave schedule and expect out, and say why in text")
        return
    if scenario.schedule is None or scenario.expect is None:
        raise UsageError(f"{source}: no schedule or no expect: give both, or status = 'not modelled'")
    try:
        re.compile(scenario.expect.says)
    except re.error as error:
        raise UsageError(f"{source}: expect.says is not a regular expression: {error}") from None
    for kind in scenario.expect.kinds:
        if kind not in KINDS:
            raise UsageError(f"{source}: expect.kinds has {kind!r}: known are {', '.join(KINDS)}")
    try:
        validate(scenario.schedule)
    except UsageError as error:
        raise UsageError(f"{source}: schedule: {error}") from None
