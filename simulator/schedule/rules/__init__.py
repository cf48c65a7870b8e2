"""The rules that can decide a schedule's order of events, one a file: each has its data and its chooser.

`AnyRule` is the union of those that this folder defines, found when it is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, TypeAlias, Union

from stalerow.simulator.schedule.rules.base import Rule

__all__ = ["AnyRule", "Rule"]

if TYPE_CHECKING:
    AnyRule: TypeAlias = Rule
else:
    for _module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{_module.name}")
    AnyRule = Union[tuple(sorted(Rule.__subclasses__(), key=lambda rule: rule.__name__))]  # noqa: UP007
