"""What is wrong although no byte of the pool is yet: an output in the wrong slot, early fills, a binding that is dead.

Asked beside the byte-for-byte comparison, with the same plan and ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.expected import Outcome
from stalerow.simulator.oracle.explain.evidence import Evidence
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.explain.wording import launch, violation
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import CopyBlocks, Operation, PostUpdate, Zero


def misplaced_output(rank: int, operation: PostUpdate, outcomes: Iterable[Outcome]) -> Iterator[Violation]:
    """Rows of an output that were not masked though another request has their slot."""
    for row, slot, _, taken_by in outcomes:
        if taken_by is not None:
            text = f"the output of step {row.step} for {row.request} on rank {rank} was written to slot {slot}, which "
            text += f"it has left and {taken_by} has taken"
            yield violation(rank, operation, "stale slot", text, request=row.request)


def early_fills(
    rank: int,
    ledger: Ledger,
    step: Step,
    operation: Zero | CopyBlocks,
    blocks: Iterable[int],
    overtaken: Sequence[Operation],
) -> Iterator[Violation]:
    """Fills of a step whose frees and admissions the rank has not taken yet (vLLM #45357): of blocks that are owned."""
    leaving = {*step.finished, *step.preempted}
    for block in blocks:
        owners = ledger.owners.get(block)
        if not owners:
            continue
        owner = ledger.describe(block)
        last = ", which leaves in this step," if {o.request for o in owners} <= leaving else ""
        yield Violation(
            kind="use after free",
            rank=rank,
            launch=operation.kind,
            step=operation.step,
            during=operation.step,
            target_block=block,
            target_owner=owner,
            explanation=f"{operation.kind} of step {operation.step} on rank {rank} fills block {block} for its next "
            f"owner while work of {owner}{last} is still queued{_overtook(overtaken)}",
        )


def _overtook(pending: Sequence[Operation]) -> str:
    """Which queued operations a fill has gone past."""
    if not pending:
        return ""
    more = f" and {counted(len(pending) - 1, 'more operation')}" if len(pending) > 1 else ""
    return f": it overtook {launch(pending[0])}{more}"


def bound_to_the_dead(evidence: Evidence, violation: Violation) -> Violation:
    """Name a copy's violation for its cause if the kernels are bound to a cache that is gone (vLLM #57807)."""
    if not evidence.dead_binding:
        return violation
    text = f"{violation.explanation}; its kernels are bound to a cache that is gone"
    return msgspec.structs.replace(violation, kind="dead binding", explanation=text)


def after_overwriting(names: Collection[str], violation: Violation) -> Violation:
    """Say so if the rank's kernels have read staging buffers, `names`, that the host had overwritten (vLLM #47644)."""
    if not names:
        return violation
    buffers = ", ".join(sorted(names))
    text = f"{violation.explanation}; kernels have read staging buffers ({buffers}) after the host overwrote them"
    return msgspec.structs.replace(violation, explanation=text)
