"""What every explanation needs: a violation of a launch, the launch in words, and the page that nobody explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stalerow.simulator.oracle.violations import Violation

if TYPE_CHECKING:
    from stalerow.simulator.oracle.judge import RankJudge
    from stalerow.simulator.oracle.watch import Watch
    from stalerow.simulator.rank.device import Operation


def launch(operation: Operation, of: int) -> str:
    if operation.step != of:
        return f"deferred {operation.kind} of step {of}"
    return f"{operation.kind} of step {of}"


def violation(watch: Watch, operation: Operation, of: int, kind: str, explanation: str, **fields: Any) -> Violation:
    return Violation(
        kind=kind,
        rank=watch.rank.index,
        launch=operation.kind,
        step=of,
        during=operation.step,
        deferred=operation.step != of,
        explanation=explanation,
        **fields,
    )


def stray_write(judge: RankJudge, operation: Operation, actual: np.ndarray, of: int | None = None) -> Violation:
    """A launch changed a page that it had no business with, or left one unchanged."""
    step = operation.step if of is None else of
    layer, block = map(int, np.argwhere((actual != judge.shadow).any(axis=2))[0])
    owners = judge.ledger.owners.get(block)
    kind = "wrong position" if owners else "use after free"
    if operation.kind == "forward" and owners:
        batch = operation.about["batch"]
        kind = "wrong position" if {o.request for o in owners} & {*batch.requests} else "cross-request copy"
    return violation(
        judge,
        operation,
        step,
        kind,
        f"{launch(operation, step)} on rank {judge.rank.index} left block {block} ({judge.ledger.describe(block)}) "
        "with bytes that it should not hold",
        layer=layer,
        target_block=block,
        target_owner=judge.ledger.describe(block),
    )
