"""Reads a struct from data that may not fit it any more: uses what fits, and says exactly what does not.

In: parsed JSON and a msgspec struct type. Out: the struct, with one sentence appended to `problems` for every field
that is unknown, missing or invalid and had to be left out or replaced by its default.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from stalerow.simulator.errors import UsageError

T = TypeVar("T", bound=msgspec.Struct)


def salvage(data: Any, wanted: type[T], where: str, problems: list[str], source: str) -> T:
    """Build a `wanted` from `data`, found at `where` (a dotted path) in the file `source`.

    Raises `UsageError` for a field that does not fit and has no default.
    """
    if not isinstance(data, dict):
        raise UsageError(f"{source}: {where or 'file'} is {data!r}: expected an object")
    hints = get_type_hints(wanted)
    fields = {f.encode_name: f for f in msgspec.structs.fields(wanted)}
    values: dict[str, Any] = {}
    tag = wanted.__struct_config__.tag_field
    for key in sorted(data.keys() - fields.keys() - {tag}):
        problems.append(f"{_at(where, key)} is not known to this release: left out")
    for key, field in fields.items():
        path = _at(where, key)
        if key not in data:
            if field.required:
                raise UsageError(f"{source}: {path} is missing and has no default; {_so_far(problems)}")
            continue
        try:
            values[field.name] = _value(data[key], hints[field.name], path, problems, source)
        except UsageError:
            raise
        except (msgspec.ValidationError, ValueError) as error:
            if field.required:
                raise UsageError(f"{source}: {path} no longer fits: {error}; {_so_far(problems)}") from None
            problems.append(f"{path} is {data[key]!r}, which no longer fits ({error}): its default is used")
    try:
        return wanted(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{source}: {where or 'file'} no longer fits: {error}; {_so_far(problems)}") from None


def _value(data: Any, hint: Any, where: str, problems: list[str], source: str) -> Any:
    arguments = get_args(hint)
    struct = _struct([t for t in (hint, *arguments) if isinstance(t, type) and issubclass(t, msgspec.Struct)], data)
    if struct is None or data is None:
        return msgspec.convert(data, hint, strict=True)
    if get_origin(hint) is tuple:
        if not isinstance(data, list):
            raise ValueError(f"expected a list, got {data!r}")
        return tuple(salvage(d, struct, f"{where}[{i}]", problems, source) for i, d in enumerate(data))
    return salvage(data, struct, where, problems, source)


def _struct(structs: list[type[msgspec.Struct]], data: Any) -> type[msgspec.Struct] | None:
    """The struct that the data is of: where there is a choice, the data carries the name of one."""
    if len(structs) < 2:
        return structs[0] if structs else None
    for struct in structs:
        config = struct.__struct_config__
        if isinstance(data, dict) and config.tag_field and data.get(config.tag_field) == config.tag:
            return struct
    return None


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _so_far(problems: list[str]) -> str:
    return f"besides, {'; '.join(problems)}" if problems else "nothing else differs"
