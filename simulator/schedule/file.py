"""The file of a schedule: JSON or TOML to a `Schedule`, strictly, and back.

In: a path or parsed data. Out: a `Schedule`, or one line that names the value and the remedy. Format 1, which kept a
seed and a family where format 2 keeps the whole draw, is read as well.
"""

from __future__ import annotations

import os
from typing import Any, get_args

import msgspec

from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import not_modelled, one_line, read_data
from stalerow.simulator.schedule.draw import Draw, Runner
from stalerow.simulator.schedule.generate import genuine
from stalerow.simulator.schedule.values import FORMAT, Schedule, validate


def to_json(schedule: Schedule) -> bytes:
    """Human-readable JSON, stable byte for byte for equal schedules."""
    return msgspec.json.format(msgspec.json.encode(schedule, order="deterministic"), indent=2) + b"\n"


def load(path: str | os.PathLike[str]) -> Schedule:
    """Read a schedule from a .json or .toml file. Raises `UsageError`."""
    data = read_data(path, "a schedule file or a seed")
    if isinstance(data, dict) and "schedule" in data:  # a saved failure wraps its schedule
        data = data["schedule"]
    if str(path).lower().endswith(".toml"):
        data = with_nulls(data)
    return from_builtins(data, str(path))


def from_builtins(data: Any, source: str) -> Schedule:
    """Build a `Schedule` from parsed JSON or TOML; `source` names it in errors."""
    data = modern(data)
    if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
        raise UsageError(
            f"{source}: schedule format {data['format']!r} is unknown: this release reads formats 1 to {FORMAT}; "
            "use the release that wrote the file, or remove fields until it validates"
        )
    try:
        schedule = msgspec.convert(data, Schedule, strict=True)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        if foreign := not_modelled(error):
            raise UsageError(f"{source}: {foreign} is not modelled: leave it out, or correct its name") from None
        raise UsageError(f"{source}: not a schedule: {one_line(error)}") from None
    try:
        return validate(schedule)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def with_nulls(value: Any) -> Any:
    """Parsed TOML, which has no null, with None where it says "none"."""
    if isinstance(value, dict):
        return {k: with_nulls(v) for k, v in value.items()}
    if isinstance(value, list):
        return [with_nulls(v) for v in value]
    return None if value == "none" else value


def modern(data: Any) -> Any:
    """Parsed data of format 1 as format 2 has it; anything else as it is.

    Format 1 did not say what had been asked for beside seed and family. What would make the very same schedule is the
    draw; a schedule that no draw makes (an edited one, an older generator's) has none.
    """
    if not isinstance(data, dict) or data.get("format", 1 if "seed" in data else FORMAT) != 1:
        return data
    made = {key: value for key, value in data.items() if key not in ("seed", "family")} | {"format": FORMAT}
    draw = _draw_of_format_1(data, made)
    return made if draw is None else made | {"draw": msgspec.to_builtins(draw)}


def _draw_of_format_1(data: dict[str, Any], made: dict[str, Any]) -> Draw | None:
    seed, family, pipeline = data.get("seed"), data.get("family"), data.get("pipeline")
    if type(seed) is not int or not isinstance(pipeline, dict):
        return None
    try:
        schedule = msgspec.convert(made, Schedule, strict=True)
        draws = [
            Draw(seed, pp=pp, runner=runner, faithful=faithful, family=family)
            for faithful in (False, True)
            for runner in (None, *(r for r in get_args(Runner) if r == schedule.pipeline.runner))
            for pp in (None, schedule.pipeline.pp)
        ]
        return next((d for d in draws if genuine(msgspec.structs.replace(schedule, draw=d))), None)
    except (ValueError, OverflowError):
        return None
