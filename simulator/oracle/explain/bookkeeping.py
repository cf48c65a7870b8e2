"""What is wrong although no byte of the pool is yet: counts of the wrong slot, early fills, a binding that is dead.

Called by the judge beside the byte-for-byte comparison, with the same plan and ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec

from stalerow.simulator.oracle.expected import after_output
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.explain.wording import launch
from stalerow.simulator.oracle.violations import Kind, Violation
from stalerow.simulator.truth.plan import PlanRow

if TYPE_CHECKING:
    from stalerow.simulator.oracle.watch import Watch
    from stalerow.simulator.rank.operations import CopyBlocks, Operation, PostUpdate, Zero


def wrong_outcome(judge: Watch, operation: PostUpdate) -> Iterator[Violation]:
    """After post_update: the counts of every row that was not masked must be its request's own."""
    host, slots = judge.rank.backend.to_host, judge.rank.slots
    computed, total, last = host(slots.num_computed), host(slots.total_len), host(slots.last_token)
    for row, slot, counts, taken_by in after_output(judge.planner, judge.ledger, operation.output):
        if taken_by is not None:
            text = f"was written to slot {slot}, which it has left and {taken_by} has taken"
            yield _outcome(judge, operation, row, "stale slot", text)
        if counts is None:
            continue
        for name, got, expected in (
            ("num_computed_tokens", computed[slot], counts.num_computed),
            ("token count", total[slot], counts.total_len),
            ("last token", last[slot], counts.last_token),
        ):
            if int(got) != expected:
                text = f"left {name} {int(got)}; the request's own value is {expected}"
                yield _outcome(judge, operation, row, "rank divergence", text)


def _outcome(judge: Watch, operation: PostUpdate, row: PlanRow, kind: Kind, what: str) -> Violation:
    rank = judge.rank.index
    return Violation(
        kind=kind,
        rank=rank,
        launch=operation.kind,
        step=row.step,
        during=operation.step,
        deferred=operation.step != row.step,
        request=row.request,
        explanation=f"the output of step {row.step} for {row.request} on rank {rank} {what}",
    )


def early_fills(judge: Watch, operation: Zero | CopyBlocks, blocks: Sequence[int]) -> Iterator[Violation]:
    """A step's fills must not run before the rank has taken its frees and admissions (vLLM #45357)."""
    if operation.step <= judge.admitted:
        return
    step = judge.planner.plans[operation.step].step
    leaving = {*step.finished, *step.preempted}
    overtaken = list(takewhile(lambda o: o.step <= operation.step and o.kind != "admit", judge.rank.queue.pending()))
    for block in blocks:
        owners = judge.ledger.owners.get(block)
        if not owners:
            continue
        rank, owner = judge.rank.index, judge.ledger.describe(block)
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


def bound_to_the_dead(judge: Watch, violation: Violation) -> Violation:
    """Name a copy's violation for its cause if the kernels are bound to a cache that is gone (vLLM #57807)."""
    rank = judge.rank
    bound = rank.binder.get(rank.cache)
    if bound.cache_id == rank.cache.cache_id:
        return violation
    text = f"{violation.explanation}; its kernels are bound to a cache that is gone"
    return msgspec.structs.replace(violation, kind="dead binding", explanation=text)


def after_overwriting(judge: Watch, violation: Violation) -> Violation:
    """Say so if the rank's kernels have read staging buffers that the host had overwritten (vLLM #47644)."""
    names = judge.rank.staging.overwritten
    if not names:
        return violation
    buffers = ", ".join(sorted(names))
    text = f"{violation.explanation}; kernels have read staging buffers ({buffers}) after the host overwrote them"
    return msgspec.structs.replace(violation, explanation=text)
