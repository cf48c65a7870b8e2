"""What the engine decided and delivered, as every recorder tells it."""

from __future__ import annotations

from collections.abc import Collection

from stalerow.simulator.draw.record import Admission, Output, Processed, Scheduled, Share
from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.step import Step


def scheduled(step: Step, aborted: Collection[str] = ()) -> Scheduled:
    """A step as the scheduler made it; `aborted` are the requests that were called off, of those that have ended."""
    used = {b for groups in step.block_lists.values() for ids in groups for b in ids} - {0}
    return Scheduled(
        step=step.number,
        rows=tuple(
            Share(
                request=row.request,
                tokens=row.num_tokens,
                drafts=row.num_drafts,
                computed=row.num_computed_tokens,
                samples=row.is_final_or_decode,
            )
            for row in step.rows
        ),
        admitted=tuple(Admission(request=n.request, hit=n.num_computed_tokens, resumed=n.resumed) for n in step.new),
        finished=tuple(r for r in step.finished if r not in aborted),
        aborted=tuple(r for r in step.finished if r in aborted),
        preempted=step.preempted,
        zeroed=step.zero,
        copies=step.copies,
        used=len(used),
    )


def processed(step: Step, delivered: Delivered) -> Processed:
    """What a step's output gave its requests."""
    drafts = {row.request: row.num_drafts for row in step.rows}
    outputs = tuple(
        Output(
            request=request,
            tokens=count,
            drafts=drafts.get(request, 0),
            accepted=max(count - 1, 0) if drafts.get(request) else 0,
        )
        for request, (count, _) in delivered.outputs.items()
    )
    return Processed(step=step.number, outputs=outputs)
