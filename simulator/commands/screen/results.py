"""Tables of results for the terminal; plain text where there is no terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from stalerow.simulator.campaign.compare import First, Row, Setting
from stalerow.simulator.draw.prose import say
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.schedule.generate import from_draw

PLAIN_WIDTH = 110


def console() -> Console:
    """Standard output; a fixed width where it is not a terminal."""
    if sys.stdout.isatty():
        columns, lines = shutil.get_terminal_size()
        # Without a height, a terminal that calls itself dumb is taken to have 80 columns, whatever it has.
        return Console(width=max(columns, 40), height=lines, highlight=False)
    return Console(width=PLAIN_WIDTH, highlight=False)


def print_comparison(rows: Sequence[Row], settings: Sequence[Setting], ended: bool = True) -> None:
    """The table, the first violation's drawing, and the command that replays it; a row for each setting.

    Without a violation, a comparison that was cut off (not `ended`) has no verdict.
    """
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
    for row in rows:
        if row.runner_only:
            say(
                out,
                f"{row.kernels} at PP {row.pp}: {counted(row.runner_only, 'more schedule')} failed by the release's "
                "runner alone: it runs a padded prompt of one token as a prefill row "
                "(stalerow scenarios show padded-first-token)",
            )
    failing = [(row, setting) for row, setting in zip(rows, settings, strict=True) if row.first is not None]
    if not failing:
        if not ended:
            return
        ran = any(row.schedules for row in rows)
        out.print("no state crossed requests" if ran else "nothing was run: none of the schedules can be")
        return
    for row, _ in failing:
        if row.first is not None and row.first.launch == "process":
            say(out, f"seed {row.first.draw.seed}: {row.first.explanation}")
            out.print(f"run it again: {row.first.command}", markup=False, soft_wrap=True)
    shown = [(row.first, setting) for row, setting in failing if row.first and row.first.launch != "process"]
    if shown:
        _print_first(out, *min(shown, key=lambda pair: (pair[1].draw.pp, pair[0].draw.seed)))


def _print_first(out: Console, first: First, setting: Setting) -> None:
    from stalerow.simulator.draw.picture import show
    from stalerow.simulator.draw.recorder import recorded

    if not setting.python:  # what an installed scheduler decided is not in the schedule
        show(out, recorded(from_draw(first.draw), setting.subject.run, str(setting.subject)))
    out.print(f"run it again, event by event: {first.command}", markup=False, soft_wrap=True)
