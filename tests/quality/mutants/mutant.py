"""What a mutant is: one change to one file, and which tests and which trial have to tell it from the original."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from killers import KILLERS

Trial = Literal["healthy", "faults", "packs", "triton", "tests"]
"""healthy: schedules of the correct system must stay clean. faults: the catalogue's scenarios must be found, told in
the same words, and clean without their faults. packs: a pack must show what its schedules show alone. triton: the
Triton forms must leave the same bytes as the reference. tests: the module's own test file must fail."""


class Mutant(NamedTuple):
    """`old` occurs exactly once in `file`; `runner` forces one of the model runners."""

    file: str
    old: str
    new: str
    runner: str = ""
    survives: str = ""
    trial: Trial = "healthy"

    @property
    def own_tests(self) -> str:
        """The test file that mirrors the module: tests/simulator/oracle/test_judge.py of simulator/oracle/judge.py."""
        path = PurePosixPath(self.file)
        return str("tests" / path.with_name(f"test_{path.name}"))

    @property
    def tests(self) -> tuple[str, ...]:
        """Test files of the suite that are asked first; where they are the trial, there is no other."""
        return (self.own_tests,) if self.trial == "tests" else KILLERS[self.file]

    @property
    def name(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def of(file: str, *changes: tuple[str, ...], trial: Trial = "healthy") -> list[Mutant]:
    """Mutants of one file: (old, new[, runner[, why it survives]])."""
    return [Mutant(file, *change)._replace(trial=trial) for change in changes]
