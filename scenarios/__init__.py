"""The catalogue: one TOML file per situation worth keeping, each a public bug or a failure found by fuzzing.

`catalogue()` reads the files that come with the package; `load` reads one from anywhere. Each name is loaded when it is
first asked for, since the program imports this package at every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stalerow.scenarios.loader import FOLDER, catalogue, load, parse
    from stalerow.scenarios.scenario import Expectation, Measured, Result, Scenario

__all__ = ["FOLDER", "Expectation", "Measured", "Result", "Scenario", "catalogue", "load", "parse"]

_HOMES = {
    "stalerow.scenarios.loader": ("FOLDER", "catalogue", "load", "parse"),
    "stalerow.scenarios.scenario": ("Expectation", "Measured", "Result", "Scenario"),
}


def __getattr__(name: str) -> Any:
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(home), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it exports {', '.join(__all__)}")
