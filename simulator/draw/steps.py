"""Steps across, ranks down: who sits in which row, what the engine decided, and which table a postprocess found."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from stalerow.simulator.draw.finding import Finding, gathered_rows
from stalerow.simulator.draw.record import Executed, Record, Scheduled, Seat, Share

MOST_STEPS, LABEL, MOST_ROWS = 7, 8, 6
NARROW = 60
"""Columns below which the table is drawn with less between its columns."""
ENGINE, POST = -1, 999
Place = tuple[int, int]
"""A line of the timeline: a rank and a row of its batch, or one of the above."""


def timeline(record: Record, found: Finding, width: int) -> Table:
    """The steps around the violation, as many as fit."""
    seen = _Seen(record)
    columns = {step: seen.column(step) for step in seen.scheduled}
    steps = _window(record, found, columns, width)
    padding = (0, _gap(width) - 1, 0, 0)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, show_edge=False)
    table.add_column("", min_width=LABEL, overflow="fold")
    for step in steps:
        table.add_column(_title(step, found), overflow="fold")
    for place in sorted({place for step in steps for place in columns[step]}):
        cells = [columns[step].get(place, "") for step in steps]
        if any(cells):
            table.add_row(_label(place), *[Text(cell, style="red" if "!!" in cell else "") for cell in cells])
    return table


def _gap(width: int) -> int:
    """Columns between two columns of the table."""
    return 1 if width < NARROW else 2


def _title(step: int, found: Finding) -> str:
    return f"step {step}" + (" *" if step == found.violation.during else "")


def _window(record: Record, found: Finding, columns: dict[int, dict[Place, str]], width: int) -> list[int]:
    """The steps to show: first those that the violation is about, then their nearest neighbours that did anything."""
    violation = found.violation
    about = [s for s in dict.fromkeys((violation.step, found.table, violation.during)) if s in columns]
    near = [s for s in columns if any(columns[s].values()) and s <= violation.during + 1]
    near.sort(key=lambda s: (s > violation.during, abs(violation.step - s)))
    chosen: list[int] = []
    room = width - LABEL
    for step in dict.fromkeys((*about, *near)):
        lines = [_title(step, found), *(line for cell in columns[step].values() for line in cell.splitlines())]
        needed = max(map(len, lines)) + _gap(width)
        if needed > room and step not in about:
            break
        if len(chosen) == MOST_STEPS:
            break
        chosen.append(step)
        room -= needed
    return sorted(chosen)


class _Seen:
    """The record by step: what the engine decided, and each rank's batches and late launches."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.scheduled = {e.what.step: e.what for e in record.events if isinstance(e.what, Scheduled)}
        self._launches: dict[tuple[int, int], list[tuple[Executed, bool]]] = {}
        for event in record.events:
            if isinstance(event.what, Executed) and event.actor == "main":
                self._launches.setdefault((event.rank, event.what.step), []).append((event.what, 0 in event.violations))

    def column(self, step: int) -> dict[Place, str]:
        """The cells of a step."""
        cells = {(ENGINE, 0): "\n".join(_decisions(self.scheduled[step]))}
        shares = {row.request: row for row in self.scheduled[step].rows}
        by_row = self._record.lookup == "row"
        for rank in range(self._record.pp):
            launches = self._launches.get((rank, step), [])
            batch = next((what for what, _ in launches if what.rows and what.of == step), None)
            if batch is not None:
                cells |= {(rank, row): cell for row, cell in enumerate(_seats(batch, shares))}
            late = [_late(what, bad, by_row) for what, bad in launches if bad or what.launch == "postprocess"]
            cells[rank, POST] = "\n".join(late)
        return cells


def _label(place: Place) -> str:
    rank, row = place
    if rank == ENGINE:
        return "engine"
    return f"r{rank} post" if row == POST else f"r{rank} row {row}"


def _decisions(step: Scheduled) -> list[str]:
    """Who joins and leaves at a step."""
    said = []
    for joined in step.admitted:
        said.append(f"+{joined.request}" + (" again" if joined.resumed else ""))
        if joined.hit:
            said.append(f" hit {joined.hit}")
    for word, names in (("done", step.finished), ("aborted", step.aborted), ("preempted", step.preempted)):
        said += [f"{name} {word}" for name in names]
    said += [f"cow {source}->{target}" for source, target in step.copies]
    return said


def _seats(batch: Executed, shares: dict[str, Share]) -> list[str]:
    cells = [_seat(seat, shares.get(seat.request)) for seat in batch.rows[:MOST_ROWS]]
    if len(batch.rows) > MOST_ROWS:
        cells.append(f"+{len(batch.rows) - MOST_ROWS} rows")
    elif batch.padded:
        cells.append(f"~{batch.padded} padded")
    return cells


def _seat(seat: Seat, share: Share | None) -> str:
    if share is None:
        return seat.request
    drafts = f"d{share.drafts}" if share.drafts else ""
    return f"{seat.request} +{share.tokens}{drafts}"


def _late(what: Executed, bad: bool, by_row: bool) -> str:
    """A postprocess (or the launch that went wrong): whose, over which table, and rows that it left out."""
    name = "" if what.launch == "postprocess" else f"{what.launch} "
    said = f"{'!! ' if bad else ''}{name}of {what.of}"
    lines = [said]
    if by_row and what.table not in (-1, what.of):
        lines.append(f" table {what.table}")
    masked = [seat.request for seat in what.rows if seat.masked]
    if masked:
        lines.append(f" ({', '.join(masked)})")
    return "\n".join(lines)


def looked_up(record: Record, found: Finding) -> Table:
    """Row by row: the request that the launch meant, and who sits in that row of the table that it read."""
    assert found.event is not None
    assert isinstance(found.event.what, Executed)
    what = found.event.what
    now = gathered_rows(record, found.event.rank, what.table, found.event.number)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("row", min_width=LABEL, overflow="fold")
    table.add_column(f"batch of step {what.of}", overflow="fold")
    table.add_column(f"table of step {what.table}", overflow="fold")
    for row, seat in enumerate(what.rows):
        sitting = now[row].request if row < len(now) else "nobody"
        masked = " (masked)" if seat.masked else ""
        differs = " <-" if sitting != seat.request and not seat.masked else ""
        style = "red" if differs else ""
        table.add_row(str(row), seat.request + masked, Text(sitting + differs, style=style))
    return table
