"""Scenarios to files: what `scenarios add` and the measuring script write, laid out to be read and edited by hand.

Values that equal their defaults are left out; requests get a table each, everything nested deeper stays on its line.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

import msgspec

from stalerow.scenarios.scenario import Scenario


def to_toml(scenario: Scenario) -> str:
    """The text of a scenario's file."""
    plain = _plain(scenario)
    schedule = plain.pop("schedule", None)
    tables = [(name, plain.pop(name)) for name in ("expect", "measured") if name in plain]
    lines = [f"{key} = {_value(value)}" for key, value in plain.items()]
    for name, table in tables:
        lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    if schedule is not None:
        lines += _schedule(schedule)
    return "\n".join(lines) + "\n"


def _schedule(schedule: dict[str, Any]) -> list[str]:
    lists = [(name, schedule.pop(name)) for name in ("requests", "aborts") if name in schedule]
    tables = [(name, schedule.pop(name)) for name in tuple(schedule) if isinstance(schedule[name], dict)]
    lines = ["", "[schedule]", *(f"{key} = {_value(value)}" for key, value in schedule.items())]
    for name, table in tables:
        lines += ["", f"[schedule.{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    for name, items in lists:
        for item in items:
            lines += ["", f"[[schedule.{name}]]", *(f"{key} = {_value(value)}" for key, value in item.items())]
    return lines


def _plain(value: Any) -> Any:
    """Structs as dictionaries without what equals its default."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        kept = {} if config.tag is None else {config.tag_field: config.tag}
        for field in msgspec.structs.fields(value):
            item = getattr(value, field.name)
            if field.name == "format" or item != field.default:
                kept[field.name] = _plain(item)
        return kept
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _value(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, datetime.date)):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    raise TypeError(f"{type(value).__name__} has no place in a scenario file")


def _text(value: str) -> str:
    if "\n" in value and "'''" not in value:
        return f"'''\n{value}'''"
    return json.dumps(value, ensure_ascii=False)
