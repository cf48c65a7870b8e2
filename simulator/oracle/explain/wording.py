"""What every explanation needs: a violation of a launch, the launch in words, and the page that nobody explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Forward, Operation

if TYPE_CHECKING:
    from stalerow.simulator.oracle.judge import RankJudge
    from stalerow.simulator.oracle.watch import Watch


def launch(operation: Operation) -> str:
    deferred = "deferred " if operation.step != operation.batch_step else ""
    return f"{deferred}{operation.kind} of step {operation.batch_step}"


def violation(watch: Watch, operation: Operation, kind: str, explanation: str, **fields: Any) -> Violation:
    return Violation(
        kind=kind,
        rank=watch.rank.index,
        launch=operation.kind,
        step=operation.batch_step,
        during=operation.step,
        deferred=operation.step != operation.batch_step,
        explanation=explanation,
        **fields,
    )


def stray_write(judge: RankJudge, operation: Operation, actual: np.ndarray) -> Violation:
    """A launch changed a page that it had no business with, or left one unchanged."""
    layer, block = map(int, np.argwhere((actual != judge.shadow).any(axis=2))[0])
    owners = judge.ledger.owners.get(block)
    kind = "wrong position" if owners else "use after free"
    if isinstance(operation, Forward) and owners:
        mine = {o.request for o in owners} & {*operation.batch.requests}
        kind = "wrong position" if mine else "cross-request copy"
    return violation(
        judge,
        operation,
        kind,
        f"{launch(operation)} on rank {judge.rank.index} left block {block} ({judge.ledger.describe(block)}) "
        "with bytes that it should not hold",
        layer=layer,
        target_block=block,
        target_owner=judge.ledger.describe(block),
    )
