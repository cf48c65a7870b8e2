"""Tables of results for the terminal; plain text where there is no terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from stalerow.simulator.campaign.compare import Row

PLAIN_WIDTH = 110


def console() -> Console:
    """Standard output; a fixed width where it is not a terminal."""
    if sys.stdout.isatty():
        return Console(width=max(shutil.get_terminal_size().columns, 60), highlight=False)
    return Console(width=PLAIN_WIDTH, highlight=False)


def print_comparison(rows: Sequence[Row], device: str) -> None:
    """The table, the first violation's drawing, and the command that replays it."""
    out = console()
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("kernels", "runner", "PP"):
        table.add_column(name, no_wrap=True)
    several_engines = any(row.engine != "own" for row in rows)
    if several_engines:
        table.add_column("engine", no_wrap=True)
    table.add_column("schedules", justify="right")
    if any(row.refused for row in rows):
        table.add_column("refused", justify="right")
    table.add_column("violating", justify="right")
    table.add_column("first violation of each, by kind")
    for row in rows:
        kinds = ", ".join(f"{k} {n}" for k, n in sorted(row.kinds.items(), key=lambda i: -i[1])) or "-"
        style = "red" if row.violating else ""
        cells = [row.kernels, row.runner, str(row.pp), str(row.schedules), str(row.violating), kinds]
        if any(r.refused for r in rows):
            cells.insert(4, str(row.refused))
        if several_engines:
            cells.insert(3, row.engine)
        table.add_row(*cells, style=style)
    out.print(table)
    failing = [row for row in rows if row.first is not None]
    for row in failing:
        if row.first is not None and row.first.launch == "process":
            out.print(f"seed {row.first.seed}: {row.first.explanation}", markup=False, soft_wrap=True)
            failing = [r for r in failing if r is not row]
    if not failing:
        out.print("no state crossed requests")
        return
    if several_engines:
        # What an installed scheduler decided is not in the schedule: 'run --engine' tells the story.
        return
    _print_first(out, min(failing, key=lambda r: (r.pp, r.first.seed if r.first else 0)), device)


def _print_first(out: Console, row: Row, device: str) -> None:
    from stalerow.simulator.draw.picture import picture
    from stalerow.simulator.run.subject import Subject
    from stalerow.simulator.schedule.generate import from_seed

    assert row.first is not None
    schedule = from_seed(row.first.seed, row.pp, row.runner, row.faithful)  # type: ignore[arg-type]
    subject = Subject(kernels=row.kernels, device=device, faults=row.faults)
    out.print(picture(schedule, subject.run, str(subject)), markup=False)
    command = f"stalerow run {row.first.seed} --pp {row.pp} --runner {row.runner} {subject.options()}"
    command += " --only-faithful" if row.faithful else ""
    out.print(f"run it again, event by event: {command}", markup=False, soft_wrap=True)
