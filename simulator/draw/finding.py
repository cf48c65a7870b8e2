"""The facts of a run's first violation that every screen names first: requests, step, rank, table row and blocks.

Read off a `Record`, so that the terminal, the trace and the page cannot disagree.
"""

from __future__ import annotations

import msgspec

from stalerow.simulator.draw.record import Event, Executed, Move, Owner, Record, Seat, Write
from stalerow.simulator.oracle.violations import Violation


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The first violation, where it happened, and what was looked up.

    event: the launch that it was found after; None if it was found when the run was over. meant: the request that the
    launch worked for, and `other` the one that it read or wrote instead ("" if there is none). row: the batch row that
    was looked up, -1 unknown; table: the step whose batch the gathered table held. write and move: what was written,
    and what should have been.
    """

    violation: Violation
    event: Event | None = None
    meant: str = ""
    other: str = ""
    row: int = -1
    slot: int = -1
    table: int = -1
    stale: bool = False
    write: Write | None = None
    move: Move | None = None

    @property
    def where(self) -> str:
        """Launch, steps and rank in words."""
        v = self.violation
        during = f" during step {v.during}" if v.during != v.step else ""
        place = f"on rank {v.rank}" if v.rank >= 0 else "in the engine"
        return f"{v.launch} of step {v.step}{during} {place}"

    @property
    def source(self) -> int:
        """The block that was read, -1 unknown."""
        return self.write.source if self.write else self.violation.source_block

    @property
    def target(self) -> int:
        """The block that was written, -1 unknown."""
        return self.write.block if self.write else self.violation.target_block

    @property
    def lookup(self) -> str:
        """What was looked up in which table, where a table that had moved on was read; "" elsewhere."""
        if not self.stale:
            return ""
        sits = f"row {self.row} is {self.other}'s" if self.other else f"row {self.row} is nobody's"
        was = f"table row {self.row} was {self.meant}'s in step {self.violation.step}"
        return f"{was}; in step {self.table}'s table {sits}"


def finding(record: Record) -> Finding | None:
    """The first violation of a record, None if it is clean."""
    if not record.violations:
        return None
    violation = record.violations[0]
    event = next((e for e in record.events if 0 in e.violations), None)
    if event is None or not isinstance(event.what, Executed):
        return Finding(violation=violation, event=event, meant=violation.request)
    what = event.what
    write = _write(what, violation)
    source, target = (write.source, write.block) if write else (violation.source_block, violation.target_block)
    owners = ownership(record, event.number).get(event.rank, {})
    meant = violation.request or (what.rows[0].request if len(what.rows) == 1 else "")
    row = next((i for i, seat in enumerate(what.rows) if seat.request == meant), -1)
    now = gathered_rows(record, event.rank, what.table, event.number)
    stale = record.lookup == "row" and row >= 0 and what.table not in (-1, what.of) and bool(what.meant)
    sitting = now[row].request if stale and row < len(now) else ""
    others = [o.request for b in (target, source) for o in owners.get(b, ()) if o.request != meant]
    return Finding(
        violation=violation,
        event=event,
        meant=meant,
        other=sitting if sitting and sitting != meant else others[0] if others else "",
        row=row,
        slot=what.rows[row].slot if row >= 0 else -1,
        table=what.table,
        stale=stale and sitting != meant,
        write=write,
        move=_move(what, violation, write),
    )


def _write(what: Executed, violation: Violation) -> Write | None:
    """The write that the violation is about: to its target block, else the first that nobody asked for."""
    to_target = [w for w in what.writes if w.block == violation.target_block]
    strays = [w for w in what.writes if not w.asked]
    return next(iter([*to_target, *strays]), None)


def _move(what: Executed, violation: Violation, write: Write | None) -> Move | None:
    """The copy that was meant: of the same group and block if there is one, and not a mere shift in place."""
    moves = [m for m in what.meant if m.request == violation.request]
    if write is not None:
        moves.sort(key=lambda m: (m.group != write.group, m.source != write.source, m.source == m.target))
    return next(iter(moves), None)


def ownership(record: Record, until: int) -> dict[int, dict[int, tuple[Owner, ...]]]:
    """Owners by rank and block after event `until`, or just before it if it changes hands itself."""
    owners: dict[int, dict[int, tuple[Owner, ...]]] = {rank: {} for rank in range(record.pp)}
    for event in record.events[:until]:
        if isinstance(event.what, Executed):
            for change in event.what.owners:
                owners[event.rank][change.block] = change.owners
    return owners


def gathered_rows(record: Record, rank: int, step: int, until: int) -> tuple[Seat, ...]:
    """The rows of the batch whose gather is in a rank's table: of step `step`, before event `until`."""
    for event in reversed(record.events[:until]):
        what = event.what
        if event.rank == rank and isinstance(what, Executed) and what.launch == "gather" and what.step == step:
            return what.rows
    return ()
