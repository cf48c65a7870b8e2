"""One screen about one failure: steps across, ranks down, who sits in which row, which gather the postprocess saw.

The schedule is run again with a `Story` watching; nothing is drawn from memory.
"""

from __future__ import annotations

import io

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stalerow.simulator.draw.story import SeenPostprocess, Story
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.values import Schedule

COLUMNS = 6


def text(renderable: RenderableType, width: int = 100) -> str:
    """Render without colour at a fixed width."""
    console = Console(width=width, file=io.StringIO(), color_system=None, force_terminal=False)
    console.print(renderable)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in written.splitlines())


def failure(schedule: Schedule, kernels: str, violation: Violation, story: Story, height: int = 40) -> RenderableType:
    """The drawing as a rich renderable."""
    steps = _window(violation, story)
    p = schedule.pipeline
    seed = f"seed {schedule.draw.seed}, " if schedule.draw is not None else ""
    head = (
        f"{violation.kind}: {violation.launch} {violation.place}, kernels {kernels}\n"
        f"{seed}P={p.pp} K={p.drafts} runner {p.runner}, block size {schedule.layout.recurrent_block_size}, "
        f"{len(schedule.requests)} requests, {schedule.order.deviations} deviations from canonical order"
    )
    room = max(3, (height - 16) // max(p.pp, 1) - 3)
    parts: list[RenderableType] = [_timeline(violation, story, steps, room)]
    parts.append(Text(violation.explanation, style="bold"))
    if violation.bytes_of:
        parts.append(Text(f"the bytes copied or read: {violation.bytes_of}"))
    culprit = _culprit(violation, story)
    if culprit is not None:
        parts.append(_lookup(culprit, story, violation))
    return Panel(Group(*parts), title=escape(head.splitlines()[0]), subtitle=escape(head.splitlines()[1]))


def _window(violation: Violation, story: Story) -> list[int]:
    """The steps worth showing: from just before the batch concerned to just after the launch."""
    known = sorted(s for s, step in story.steps.items() if step.rows or s in (violation.step, violation.during))
    near = [s for s in known if s <= violation.during + 1 and s >= violation.step - COLUMNS]
    return near[-COLUMNS:]


def _timeline(violation: Violation, story: Story, steps: list[int], room: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for step in steps:
        mark = " *" if step == violation.during else ""
        table.add_column(f"step {step}{mark}", overflow="fold")
    for index, rank in enumerate(story.ranks):
        depth = max((len(rank.rows.get(s, ())) for s in steps), default=0)
        for row in range(min(depth, room)):
            cells = [_seat(story, rank.rows.get(s, ()), row, s) for s in steps]
            table.add_row(f"rank {index} row {row}" if row == 0 else f"       row {row}", *cells)
        if depth > room:
            table.add_row("", *[f"+{max(0, len(rank.rows.get(s, ())) - room)} rows" for s in steps])
        posts = [_post_cell(rank.posts.get(s, []), violation, index) for s in steps]
        if any(posts):
            table.add_row("       post", *posts)
    return table


def _seat(story: Story, requests: tuple[str, ...], row: int, step: int) -> str:
    if row >= len(requests):
        return "."
    name = requests[row]
    found = next((r for r in story.steps[step].rows if r.request == name), None)
    if found is None:
        return name
    drafts = f"d{found.num_drafts}" if found.num_drafts else ""
    return f"{name} +{found.num_tokens}{drafts}"


def _post_cell(posts: list[SeenPostprocess], violation: Violation, rank: int) -> str:
    cells = []
    for post in posts:
        late = post.gathered is not None and post.gathered != post.of
        cell = f"of {post.of}" + (f", table {post.gathered}" if late else "")
        if rank == violation.rank and post.of == violation.step and post.violated:
            cell = f"!! {cell}"
        cells.append(cell)
    return "; ".join(cells)


def _culprit(violation: Violation, story: Story) -> SeenPostprocess | None:
    if violation.launch != "postprocess":
        return None
    posts = story.ranks[violation.rank].posts.get(violation.during, [])
    return next((p for p in posts if p.of == violation.step), None)


def _lookup(post: SeenPostprocess, story: Story, violation: Violation) -> Table:
    """Row by row: the request that the postprocess meant, and who sits in that row of the table it could read."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("row")
    table.add_column(f"meant: batch of step {post.of}")
    table.add_column(f"gathered table during step {post.during}: batch of step {post.gathered}")
    now = story.ranks[violation.rank].rows.get(post.gathered or -1, ())
    for row, request in enumerate(post.rows):
        masked = "" if request in post.kept else " (masked)"
        sitting = now[row] if row < len(now) else "."
        differs = " <- another request" if sitting not in (request, ".") and not masked else ""
        table.add_row(str(row), request + masked, sitting + differs)
    return table
