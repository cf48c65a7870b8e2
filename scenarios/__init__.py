"""The catalogue: one TOML file per situation worth keeping, each a public bug or a failure found by fuzzing.

`catalogue()` reads the files that come with the package; `load` reads one from anywhere.
"""

from stalerow.scenarios.loader import FOLDER, catalogue, load, parse
from stalerow.scenarios.scenario import Expectation, Measured, Result, Scenario

__all__ = ["FOLDER", "Expectation", "Measured", "Result", "Scenario", "catalogue", "load", "parse"]
