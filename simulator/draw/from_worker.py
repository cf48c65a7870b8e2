"""A run of an engine's own worker as the events that every screen draws.

The worker's process hands back its steps, each rank's batches and late launches once the run is over, so events come in
the order of steps and times only number them.
"""

from __future__ import annotations

from collections.abc import Iterator

from stalerow.simulator.draw.record import Admission, Event, Executed, Scheduled, Seat, Share, What
from stalerow.simulator.engine.step import Step
from stalerow.simulator.worker.protocol import Ran, RankStep


def worker_events(ran: Ran) -> tuple[Event, ...]:
    """Events of a recorded run; the last one is the launch that its first violation names."""
    events = []
    for number, (actor_rank, what, violated) in enumerate(_told(ran), 1):
        events.append(
            Event(
                number=number,
                actor="engine" if actor_rank < 0 else "main",
                rank=actor_rank,
                start=number,
                end=number + 1,
                violations=(0,) if violated else (),
                what=what,
            )
        )
    return tuple(events)


def _told(ran: Ran) -> Iterator[tuple[int, What, bool]]:
    batches = {(made.rank, made.step): made for made in ran.ranks}
    for step in ran.engine_steps:
        yield -1, _scheduled(step), False
        for late in ran.deferred:
            if late.during == step.number:
                rows = tuple(Seat(request=r, masked=r not in late.kept) for r in late.requests)
                table = -1 if late.gathered is None else late.gathered
                what = Executed(launch="postprocess", step=late.during, of=late.of, rows=rows, table=table)
                yield late.rank, what, False
        for made in ran.ranks:
            if made.step == step.number:
                yield made.rank, Executed(launch="forward", step=step.number, of=step.number, rows=_seats(made)), False
    if ran.violations:
        first = ran.violations[0]
        batch = batches.get((first.rank, first.step))
        rows = _seats(batch) if batch is not None else ()
        gathered = [made.step for made in ran.ranks if made.rank == first.rank and made.step <= first.during]
        table = max(gathered, default=-1)
        what = Executed(launch=first.launch, step=first.during, of=first.step, rows=rows, table=table)
        yield first.rank, what, True


def _seats(made: RankStep) -> tuple[Seat, ...]:
    return tuple(Seat(request=request, slot=slot) for request, slot in zip(made.requests, made.slots))


def _scheduled(step: Step) -> Scheduled:
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
        admitted=tuple(
            Admission(request=new.request, hit=new.num_computed_tokens, resumed=new.resumed) for new in step.new
        ),
        finished=step.finished,
        preempted=step.preempted,
        zeroed=step.zero,
        copies=step.copies,
    )
