"""Pages of what a command measured: tables, bars and links, in the shell of `html`.

`compare` puts the first violating run beside a clean one of the same schedule above its table; `fuzz` links the pages
of what it saved, `merge` those of all shards; `explore` shows what was run and cut, `serve` its runs and the requests
that broke.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.draw.html import document, page
from stalerow.simulator.draw.words import as_html
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.violations import MARKS

if TYPE_CHECKING:
    from stalerow.simulator.campaign.compare import Row
    from stalerow.simulator.campaign.findings import Finding, Tally
    from stalerow.simulator.campaign.shards import Sum
    from stalerow.simulator.draw.record import Record
    from stalerow.simulator.explore.alone import Alone
    from stalerow.simulator.explore.progress import Progress
    from stalerow.simulator.serve.report import RequestResult, RunResult

Cell = str | int | float
NAMES, BAR_WIDTH, BAR_HEIGHT = 330, 300, 18
"""Pixels: the room for names, the longest bar, and its height."""


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], links: Mapping[str, str] | None = None) -> str:
    """An HTML table; numbers to the right. `links` maps the text of a cell to where it leads."""
    body = "".join(f"<tr>{''.join(_cell(cell, links or {}) for cell in row)}</tr>" for row in rows)
    titles = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    return f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(cell: Cell, links: Mapping[str, str]) -> str:
    if isinstance(cell, str):
        text = escape(cell)
        return f'<td><a href="{escape(links[cell])}">{text}</a></td>' if cell in links else f"<td>{text}</td>"
    return f'<td class="number">{cell:.2f}</td>' if isinstance(cell, float) else f'<td class="number">{cell:,}</td>'


def bars(title: str, values: Sequence[tuple[str, float]], unit: str = "") -> str:
    """Horizontal bars by name, the longest as wide as there is room."""
    most = max((value for _, value in values), default=0) or 1
    rows = []
    for i, (name, value) in enumerate(values):
        y, width = i * (BAR_HEIGHT + 4), value / most * BAR_WIDTH
        rows.append(
            f'<text x="0" y="{y + 13}">{escape(name)}</text>'
            f'<rect x="{NAMES}" y="{y}" width="{max(width, 1):.0f}" height="{BAR_HEIGHT}" class="bar"/>'
            f'<text x="{NAMES + 4 + width:.0f}" y="{y + 13}">{value:,.4g}{escape(unit)}</text>'
        )
    whole, height = NAMES + BAR_WIDTH + 80, len(values) * (BAR_HEIGHT + 4)
    about = f'viewBox="0 0 {whole} {height}" width="{whole}" role="img" aria-label="{escape(title)}"'
    svg = f"<svg {about}>{''.join(rows)}</svg>"
    return f'<h2>{escape(title)}</h2><div class="wide">{svg}</div>'


def _seeds(seeds: Sequence[int]) -> str:
    if isinstance(seeds, range):
        return f"seeds {seeds.start} to {seeds.stop - 1}"
    few = ", ".join(map(str, seeds[:8]))
    return f"{len(seeds)} seeds ({few}, ...)" if len(seeds) > 8 else f"seeds {few}"


def comparison(rows: Sequence[Row], seeds: Sequence[int], records: Sequence[Record]) -> bytes:
    """`compare`: the table, the share of violating schedules, and two of the runs side by side if any violates."""
    head = ("kernels", "engine", "runner", "PP", "schedules", "refused", "violating", "runner's", "first, by kind")
    body = table(
        head,
        (
            (
                *(r.kernels, r.engine, r.runner, r.pp, r.schedules, r.refused, r.violating, r.runner_only),
                _counted(r.kinds) or "-",
            )
            for r in rows
        ),
    )
    shares = [(f"{r.kernels}, {r.runner}, PP {r.pp}", 100 * r.violating / r.schedules) for r in rows if r.schedules]
    body += bars("violating schedules, % of those run", shares, " %")
    firsts = [(r.first.command, r.first.kind) for r in rows if r.first is not None]
    if firsts:
        body += "<h2>first of each, to run again</h2>" + table(("command", "kind"), firsts)
    title = "stalerow compare: " + ", ".join(dict.fromkeys(r.kernels for r in rows))
    about = f"{_seeds(seeds)}, the same schedules for every row"
    if not records:
        return document(title, about, body)
    return page(records, title=title, about=about, below=body)


def campaign(
    title: str, about: str, tally: Tally, pages: Mapping[Path, Path], folder: Path, took: str, below: str = ""
) -> bytes:
    """`fuzz`: what was found, with links relative to `folder` to saved schedules and their pages, and the marks.

    took: by whom or in which time it was run, in words; below: HTML to end with.
    """
    found = [*tally.findings, *tally.breaches]
    links: dict[str, str] = {}
    rows = []
    for finding in found:
        saved = str(finding.path)
        links[saved] = _relative(finding.path, folder)
        shown = pages.get(finding.path)
        seen = f"page of {finding.path.stem}" if shown is not None else "-"
        if shown is not None:
            links[seen] = _relative(shown, folder)
        rows.append((finding.failure.kind, _where(finding), saved, seen, finding.failure.origin.command))
    verdict = "bad" if found else ""
    said = f"{len(found)} found" if found else "no violation" if tally.schedules else "no schedule ended"
    head = f"{said}: {tally.schedules:,} schedules {took}"
    body = f'<section class="verdict {verdict}"><h2>{head}</h2></section>'
    if rows:
        body += table(("kind", "where", "saved", "page", "the seed, before shrinking"), rows, links)
    for finding in found:
        violation = finding.failure.violation
        said = violation.explanation if violation else finding.failure.note
        body += f"<h3>{escape(finding.failure.kind)}</h3><p>{escape(said)}</p>"
        if finding.drawing:
            drawing = f"<pre>{escape(finding.drawing)}</pre>"
            body += f"<details><summary>as the terminal shows it</summary>{drawing}</details>"
        body += as_html(finding.failure.kind)
    if tally.kinds:
        body += bars("violating schedules by the kind of their first violation", tally.kinds.most_common())
    body += bars("marks: schedules that had one", [(name, tally.marks[name]) for name in MARKS if name in tally.marks])
    if tally.missed:
        body += f'<p class="wrong">marks not seen: {escape(", ".join(tally.missed))}</p>'
    return document(title, about, body + below)


def shards(total: Sum, pages: Mapping[Path, Path], folder: Path) -> bytes:
    """`merge`: the page of a campaign, of all its shards, with a row for each."""
    of = total.parts[0].of
    rows = [
        (p.number, p.schedules, p.skipped, _counted(p.kinds) or "none", len(p.marks), p.state, str(p.path))
        for p in total.parts
    ]
    head = ("shard", "schedules", "skipped", "violating, by kind", "marks seen", "state", "file")
    below = "<h2>shards</h2>" + table(head, rows)
    if total.missing:
        below = f'<p class="wrong">{escape(absent(total))}</p>{below}'
    repeated = [(str(path), count) for path, count in total.more.items()]
    if repeated:
        below += "<h2>found by several shards</h2>" + table(("the smallest", "others like it"), repeated)
    seeds = f"{of.draw.seed} on" if of.runs is None else f"{of.draw.seed} to {of.draw.seed + of.runs - 1}"
    about = f"seeds {seeds}" if of.seeds is None else f"{len(of.seeds)} seeds that were named"
    took = f"by {len(total.parts)} of {of.shards} shards"
    return campaign(f"stalerow fuzz: {of.subject}", about, total.tally, pages, folder, took, below)


def absent(total: Sum) -> str:
    """Which shards no file tells of, in words."""
    names = ", ".join(map(str, total.missing))
    verb = "shard is" if len(total.missing) == 1 else "shards are"
    return f"{verb} not among the files, so nothing is known of their seeds: {names} of {total.parts[0].of.shards}"


def exploration(progress: Progress | Alone, saved: Sequence[Path], pages: Sequence[Path | None], folder: Path) -> bytes:
    """`explore`: the bound, what was run and what was cut, and the failures with links relative to `folder`."""
    counts = progress.visits
    said = f"{progress.violating} of {progress.tried} schedules violate" if progress.failing else "no violation"
    state = "to the end" if progress.over else f"{progress.finished} of {progress.workloads} workloads"
    verdict = "bad" if progress.failing else ""
    body = f'<section class="verdict {verdict}"><h2>{said}</h2><p>searched {state}</p></section>'
    links: dict[str, str] = {}
    rows = []
    for failing, file, shown in zip(progress.failing, saved, pages, strict=True):
        links[str(file)] = _relative(file, folder)
        seen = "-" if shown is None else f"page of {file.stem}"
        if shown is not None:
            links[seen] = _relative(shown, folder)
        violation = failing.violation
        where = f"{violation.launch} of step {violation.step} {violation.place}"
        rows.append((violation.kind, where, violation.explanation, str(file), seen))
    if rows:
        body += table(("kind", "where", "what happened", "saved", "page"), rows, links)
    names = {
        "orders run to their end": counts.orders,
        "runs": counts.runs,
        "runs cut at a state seen before": counts.cut_states,
        "runs cut since only commuting events were swapped": counts.cut_asleep,
        "choices cut for the same reason": counts.cut_commuting,
        "decisions visited": counts.decisions,
    }
    body += table(("counted", "number"), names.items())
    body += bars("runs", [(name, number) for name, number in names.items() if "run" in name])
    return document(f"stalerow explore: {progress.subject}", progress.about, body)


def serving(
    results: Sequence[RunResult], about: str, reported: Sequence[tuple[str, str, str, str]], pages: Sequence[str]
) -> bytes:
    """`serve`: every run, what its users saw, and the requests that broke; beside it what users reported.

    pages: where the page of each run is, from this one.
    """
    head = (
        "kernels", "PP", "concurrency", "stuck", "differ", "acceptance length", "output tokens", "poisoned", "cached",
        "by hit", "requests/s", "inter-token latency, ms", "steps", "died", "page",
    )  # fmt: skip
    names = [_run_name(r) for r in results]
    seen = [f"page {number}" for number in range(1, len(results) + 1)]
    body = table(
        head,
        (
            (
                r.kernels, r.pipeline_parallel_size, r.max_concurrency, r.stuck, r.differing, r.acceptance_length,
                r.output_tokens, r.poisoned_blocks, r.cached_blocks, r.inherited, r.request_throughput,
                r.inter_token_latency, r.steps, r.died or "-", shown,
            )
            for r, shown in zip(results, seen, strict=True)
        ),
        dict(zip(seen, pages, strict=True)),
    )  # fmt: skip
    for title, values in (
        ("requests stuck in one token, %", [100 * r.stuck / r.num_requests for r in results]),
        ("acceptance length, tokens per verification step", [r.acceptance_length for r in results]),
        ("output tokens, mean", [r.output_tokens for r in results]),
    ):
        body += bars(title, list(zip(names, values)))
    body += "<h2>reported by users of the engine</h2>"
    body += table(("setting", "figure", "before the fix", "after"), reported)
    for name, result in zip(names, results):
        broken = [r for r in result.requests if r.stuck or r.differs]
        if broken:
            title = f"{escape(name)}: {counted(len(broken), 'broken request')}"
            body += f"<details><summary>{title}</summary>{_requests(broken)}</details>"
    return document("stalerow serve", about, body)


def _requests(broken: Sequence[RequestResult]) -> str:
    head = (
        "request", "prompt", "cached", "output", "healthy", "finish", "stuck", "damaged at", "inherited", "latency, ms",
    )  # fmt: skip
    return table(
        head,
        (
            (
                r.id, r.prompt_len, r.hit_tokens, r.output_len, r.healthy_len, r.finish, "yes" if r.stuck else "no",
                r.damaged_at, "yes" if r.inherited else "no", r.latency / 1e3,
            )
            for r in broken
        ),
    )  # fmt: skip


def _run_name(result: RunResult) -> str:
    kernels = result.kernels.replace("reference:", "ref:")
    return f"{kernels}, PP {result.pipeline_parallel_size}, conc. {result.max_concurrency or 'any'}"


def _where(finding: Finding) -> str:
    violation = finding.failure.violation
    return "-" if violation is None else f"{violation.launch} of step {violation.step} {violation.place}"


def _counted(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items(), key=lambda item: -item[1]))


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
