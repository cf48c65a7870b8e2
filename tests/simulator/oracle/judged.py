"""One rank with its judge: steps made by hand, run launch by launch up to where a test breaks something."""

from __future__ import annotations

from typing import Any

import numpy as np
from one_rank import both, hand, known, rank, row
from small import step

from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.explain.evidence import Evidence, evidence
from stalerow.simulator.oracle.judge import RankJudge
from stalerow.simulator.oracle.violations import Marks, Violation
from stalerow.simulator.oracle.watch import Watch
from stalerow.simulator.rank.operations import Operation

VERIFY = step(2, (row("r0", 3, 2, 6),), cached=(known("r0", 6),))
"""One draft of two is accepted: the column moves from 1 to 2 before, and a state is saved back to 1 after."""


class Judged:
    """A rank of a pipeline of one, whose judge sees every launch."""

    def __init__(self, watch: type[Watch] = RankJudge, **given: Any) -> None:
        self.rank = rank(**({"pp": 1} | given))
        self.planner: Any = self.rank.model
        self.marks, self.found = Marks(), list[Violation]()
        self.judge: Any = watch(self.rank, self.planner, self.marks, self.found)
        self.rank.harness = self.judge

    @property
    def ledger(self) -> Any:
        return self.judge.ledger

    @property
    def pages(self) -> np.ndarray:
        """The rank's pool itself."""
        return self.rank.pool.pages(self.rank.pool.array)

    def hand(self, *steps: Step) -> None:
        for given in steps:
            hand(self.rank, given)

    def run(self, until: str = "") -> Any:
        """Run and judge what is queued, up to the first launch of a kind, which is returned and still queued."""
        while self.rank.queue.runnable():
            if self.rank.queue.head().kind == until:
                return self.rank.queue.head()
            self.launch()
        assert not until, f"no {until}"
        return None

    def launch(self) -> Operation:
        """Run the next launch and judge it."""
        self.judge.before(self.rank.queue.head())
        operation = self.rank.execute()
        self.judge.after(operation)
        return operation

    def evidence(self, wanted: np.ndarray | None = None) -> Evidence:
        return evidence(self.rank, self.planner, self.ledger, self.pages.copy() if wanted is None else wanted)


def prefilled(**given: Any) -> Judged:
    """Both requests have been prefilled: r0's state is in block 2, r1's in block 8."""
    made = Judged(**given)
    made.hand(both())
    made.run()
    assert made.found == []
    return made


def verifying(until: str, **given: Any) -> tuple[Judged, Any]:
    """The verification step is under way, up to a launch of a kind."""
    made = prefilled(**given)
    made.hand(VERIFY)
    return made, made.run(until)
