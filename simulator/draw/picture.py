"""One screen about one failure, from 40 to 100 columns of plain text: what was copied, when, over which table.

Drawn from a `Record`: the two requests, step, rank, table row and blocks first, then the copy as an arrow, then steps
across and ranks down, then the rows that were looked up and the blocks before and after.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UnsetType
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from stalerow.simulator.draw.blockmap import before_and_after, named, owners_line
from stalerow.simulator.draw.charset import Sheet, ascii_only
from stalerow.simulator.draw.finding import Finding, finding, ownership
from stalerow.simulator.draw.record import Record
from stalerow.simulator.draw.steps import looked_up, timeline
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.violations import Race

if TYPE_CHECKING:
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.run.simulation import Observer
    from stalerow.simulator.schedule.values import Schedule

NARROWEST, WIDEST = 40, 100


def width_here() -> int:
    """The terminal's width within what the picture can use; the widest where there is no terminal."""
    columns = shutil.get_terminal_size((WIDEST, 40)).columns
    return max(NARROWEST, min(columns, WIDEST))


def picture(
    schedule: Schedule, run: Callable[[Schedule, Observer], Outcome], kernels: str, width: int | None = None
) -> str:
    """Run the schedule with `run` and draw its first violation."""
    from stalerow.simulator.draw.recorder import recorded

    return drawn(recorded(schedule, run, kernels), width)


def drawn(record: Record, width: int | None = None) -> str:
    """The picture of a record's first violation, as text without colour; `width` in columns."""
    found = finding(record)
    if found is None:
        return f"no violation: {record.kernels} ran {record.steps} steps clean"
    return text(failure(record, found, width or width_here()), width or width_here())


def show(out: Console, record: Record) -> None:
    """Print the picture of a record's first violation: in colour on a terminal that has it and asks for it."""
    found, width = finding(record), min(width_here(), max(out.width, NARROWEST))
    if found is None or not out.is_terminal or out.color_system is None or out.no_color:
        out.print(drawn(record, width), markup=False, highlight=False, soft_wrap=True)
        return
    sheet = Sheet(ascii_only())
    Console(width=width, file=sheet, force_terminal=True).print(failure(record, found, width))
    out.file.write(sheet.getvalue())


def text(renderable: RenderableType, width: int) -> str:
    """Render without colour at a fixed width, in ASCII where the locale or the output asks for it."""
    out = Sheet(ascii_only())
    Console(width=width, file=out, color_system=None, force_terminal=False).print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def failure(record: Record, found: Finding, width: int) -> RenderableType:
    """The picture as a rich renderable."""
    violation = found.violation
    line = "=" if width < 60 or ascii_only() else "─"
    parts: list[RenderableType] = [
        Rule(Text(violation.kind, style="bold red"), characters=line),
        Text(f"{found.where}, kernels {record.kernels}", style="bold"),
        Text(violation.explanation),
        *_named(found),
        *_arrows(record, found, width),
        timeline(record, found, width),
    ]
    if not isinstance(violation.race, UnsetType):
        parts += ["", *_race(violation.race)]
    if found.stale:
        parts += ["", looked_up(record, found)]
    if found.event is not None and found.write is not None:
        parts += ["", before_and_after(record, found), owners_line(record, found)]
    parts += ["", Text(_about(record), style="dim")]
    parts.append(Rule(characters=line))
    return Group(*parts)


def _race(race: Race) -> list[RenderableType]:
    """The two programs that raced, side by side, in the order that they took in this run."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for racer in (race.first, race.second):
        table.add_column(f"program {racer.program} warp {racer.warp}")
    table.add_row(race.first.does, "")
    table.add_row("", race.second.does)
    return [Text(f"race in {race.kernel} over memory {race.over}", style="bold"), table]


def _named(found: Finding) -> list[RenderableType]:
    """The names that a reader needs, on a line or two of their own."""
    lines = []
    if found.meant and found.other:
        lines.append(f"working for {found.meant}, touched {found.other}'s memory")
    if found.lookup:
        lines.append(found.lookup)
    if found.violation.bytes_of:
        lines.append(f"the bytes copied or read: {found.violation.bytes_of}")
    return [Text(line) for line in lines]


def _arrows(record: Record, found: Finding, width: int) -> list[RenderableType]:
    """The copy between two owners, and below it the one that was meant."""
    source, target = found.source, found.target
    if source < 0 or target < 0 or found.event is None:
        return []
    owners = ownership(record, found.event.number)[found.event.rank]
    rows = [("copied", source, "==>", target)]
    if found.move is not None:
        rows.append(("meant", found.move.source, "-->", found.move.target))
    lines = []
    for word, s, arrow, t in rows:
        left, right = f"block {s} ({named(owners.get(s, ()))})", f"block {t} ({named(owners.get(t, ()))})"
        line = f"  {word:<7} {left} {arrow} {right}"
        lines += [line] if len(line) <= width else [f"  {word:<7} {left}", f"  {arrow:<7} {right}"]
    return [Padding(Text("\n".join(lines), style="red"), (1, 0))]


def _about(record: Record) -> str:
    seed = f"seed {record.seed}, " if record.seed is not None else ""
    sizes = {g.block_size for g in record.groups if g.kind == "recurrent"}
    size = f"block size {', '.join(map(str, sorted(sizes)))}, " if sizes else ""
    return (
        f"{seed}P={record.pp} K={record.drafts} runner {record.runner}, {size}"
        f"{counted(len(record.requests), 'request')}, {counted(record.deviations, 'deviation')} from canonical order"
    )
