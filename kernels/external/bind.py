"""Values that the user gives to parameters which the vocabulary does not know: ``NAME[PARAMETER=VALUE,...]``.

They are part of a kernel set's name, so that they reach worker processes, saved failures and printed commands with it.
"""

import ast
import re

from .errors import BadBinding

_BOUND = re.compile(r"(?P<name>.+?)\[(?P<values>[^\[\]]*)\]", re.DOTALL)
_PAIR = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+?)\s*", re.DOTALL)

Value = int | float | bool | str | None


def split(name: str) -> tuple[str, dict[str, Value]]:
    """The kernel set's own name, and the values bound behind it. Raises `BadBinding`."""
    found = _BOUND.fullmatch(name)
    if found is None:
        return name, {}
    return found["name"], dict(_pair(text) for text in found["values"].split(",") if text.strip())


def join(name: str, pairs: list[str]) -> str:
    """`name` with more values behind it, each given as ``PARAMETER=VALUE``. Raises `BadBinding`."""
    bare, values = split(name)
    values |= dict(_pair(text) for text in pairs)
    if not values:
        return bare
    return f"{bare}[{','.join(f'{parameter}={value!r}' for parameter, value in values.items())}]"


def _pair(text: str) -> tuple[str, Value]:
    found = _PAIR.fullmatch(text)
    try:
        value = ast.literal_eval(found[2]) if found else None
    except (ValueError, SyntaxError):
        found, value = None, None
    if found is None or not isinstance(value, int | float | str | None):
        raise BadBinding(f"binding {text!r}: expected PARAMETER=VALUE with a literal, such as TILE=4 or FLAG=True")
    return found[1], value
