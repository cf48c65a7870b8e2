"""Faults: every public bug of the family as a small deviation from the correct system, to be found by the oracle.

`resolve(names)` turns `--fault` arguments into `Faults`, whose `run` is `simulator.run.run` with them applied; a
user's own fault subclasses `Fault` in a Python file.
"""

from stalerow.simulator.faults.base import Fault, Wrapped
from stalerow.simulator.faults.combine import Faults
from stalerow.simulator.faults.registry import builtin_faults, resolve

__all__ = ["Fault", "Faults", "Wrapped", "builtin_faults", "resolve"]
