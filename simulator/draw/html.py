"""A `Record`, or two of the same schedule, as one self-contained page: no network, nothing but what is in the file.

The verdict and the words are made here; `page/` holds the shell, the style and the scripts that draw the rest from the
record embedded as JSON. A content security policy allows that style and that script, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

import msgspec

from stalerow.simulator.draw.finding import Finding, finding, ownership
from stalerow.simulator.draw.record import Event, Record, Write
from stalerow.simulator.draw.words import as_html
from stalerow.simulator.oracle.explain.numbers import counted

SCRIPTS = ("model.js", "timeline.js", "blocks.js", "page.js")
KEYS = (
    ("← →", "one event back or on"),
    ("Shift ← →", "ten"),
    ("v", "next violation"),
    ("d", "first difference"),
    ("+ - 0", "zoom"),
    ("t", "events or virtual time"),
    ("Home End", "first and last"),
)
UNWATCHED = (
    "No oracle looked at this run's memory, so nothing here says which launch wrote which block, nor who owned it: the "
    "page has launches, the rows that they worked for and the tables that they read. <code>stalerow replay</code> of a "
    "schedule that <code>stalerow fuzz --only-faithful</code> found shows the writes of such a copy."
)


def page(records: Sequence[Record], title: str = "", about: str = "", below: str = "") -> bytes:
    """The page of one run, or of two kernel sets on the same schedule side by side; `below` is HTML to end with."""
    title = title or "stalerow: " + " and ".join(r.kernels for r in records)
    body = [_verdict(record, with_kernels=len(records) > 1) for record in records]
    keys = " ".join(f"<kbd>{escape(key)}</kbd> {text}" for key, text in KEYS)
    body += ['<div id="controls" class="controls"></div>', '<div id="runs" class="runs"></div>']
    body.append(f'<p class="soft keys">{keys}</p>')
    kinds = dict.fromkeys(v.kind for r in records for v in r.violations)
    body += [f"<details><summary>What is: {escape(kind)}?</summary>{as_html(kind)}</details>" for kind in kinds]
    body += [_marks(records), below]
    fields = {"event": Event.__struct_fields__, "write": Write.__struct_fields__}
    data = msgspec.json.encode({"records": records, "fields": fields})
    return document(title, "; ".join(filter(None, (about, _about(records[0])))), "\n".join(body), data)


def document(title: str, about: str, body: str, data: bytes = b'{"records": []}') -> bytes:
    """The shell around a body. `title` and `about` are text, `body` is HTML, `data` the JSON for the scripts."""
    folder = files("stalerow.simulator.draw") / "page"
    style = (folder / "style.css").read_text(encoding="utf-8")
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    shell = Template((folder / "page.html").read_text(encoding="utf-8"))
    # '<' occurs in strings only, where the escape means the same: no content can end the script element.
    embedded = data.decode().replace("<", "\\u003c")
    text = shell.substitute(
        title=escape(title),
        about=escape(about),
        body=body,
        data=embedded,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return text.encode()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _about(record: Record) -> str:
    seed = f"seed {record.seed}, " if record.seed is not None else ""
    groups = ", ".join(f"{g.kind} {g.block_size}" for g in record.groups)
    return (
        f"{seed}P={record.pp} K={record.drafts} runner {record.runner}; groups (tokens per block): {groups}; "
        f"{counted(len(record.requests), 'request')}, {counted(record.steps, 'step')}, "
        f"{counted(record.deviations, 'deviation')} from canonical order; digest {record.digest}"
    )


def _verdict(record: Record, with_kernels: bool) -> str:
    name = f"{escape(record.kernels)}: " if with_kernels else ""
    found = finding(record)
    again = f'<p class="soft">again: <code>{escape(record.again)}</code></p>' if record.again else ""
    stopped = f"<p>The run stopped early: {escape(record.stopped)}.</p>" if record.stopped else ""
    if record.unwatched is not None:
        head = "clean" if record.unwatched.clean else "broken"
        style = "verdict" if record.unwatched.clean else "verdict bad"
        said = f"<p>{escape(record.unwatched.how)}</p><p>{UNWATCHED}</p>"
        return f'<section class="{style}"><h2>{name}{head}</h2>{said}{stopped}{again}</section>'
    if found is None:
        return f'<section class="verdict"><h2>{name}clean: no state crossed requests</h2>{stopped}{again}</section>'
    violation = found.violation
    more = len(record.violations) - 1
    others = f'<p class="soft">and {more} more after it</p>' if more else ""
    shown = f"{_facts(found)}{_arrows(record, found)}"
    return (
        f'<section class="verdict bad"><h2>{name}{escape(violation.kind)}: {escape(found.where)}</h2>'
        f"<p>{escape(violation.explanation)}</p>{shown}{others}{stopped}{again}</section>"
    )


def _facts(found: Finding) -> str:
    violation, move = found.violation, found.move
    during = f", run during step {violation.during}" if violation.during != violation.step else ""
    facts = [
        ("working for", found.meant or "-"),
        ("touched instead", found.other),
        ("step", f"{violation.step}{during}"),
        ("rank", str(violation.rank) if violation.rank >= 0 else "none: the engine"),
        ("table row", f"{found.row}" if found.row >= 0 else ""),
        ("block written", str(found.target)),
        ("block read", str(found.source)),
        ("meant", f"block {move.source} to block {move.target}" if move else ""),
    ]
    items = [f"<li><span>{name}</span><b>{escape(value)}</b></li>" for name, value in facts if value not in ("", "-1")]
    lookup = f"<p>{escape(found.lookup)}</p>" if found.lookup else ""
    return f'<ul class="facts">{"".join(items)}</ul>{lookup}'


def _arrows(record: Record, found: Finding) -> str:
    """The copy that was made and the one that was meant, as boxes and arrows."""
    violation, move, source, target = found.violation, found.move, found.source, found.target
    if target < 0 or source < 0:
        return ""
    owners = {} if found.event is None else ownership(record, found.event.number).get(found.event.rank, {})

    def owner(block: int, else_said: str) -> str:
        return (
            " and ".join(f"{o.request} (group {o.group}, column {o.column})" for o in owners.get(block, ()))
            or else_said
        )

    copied = owner(source, violation.source_owner), owner(target, violation.target_owner)
    rows = [_arrow("copied", source, copied[0], target, copied[1], "bad")]
    if move is not None:
        asker = f"{move.request} (group {move.group})"
        rows.append(_arrow("meant", move.source, owner(move.source, asker), move.target, owner(move.target, asker), ""))
    return f'<div class="copy">{"".join(rows)}</div>'


def _arrow(word: str, source: int, source_owner: str, target: int, target_owner: str, style: str) -> str:
    def box(block: int, owner: str) -> str:
        return f'<span class="box {style}"><b>block {block}</b>{escape(owner or "nobody")}</span>'

    return (
        f'<span class="{style}">{word}</span>{box(source, source_owner)}'
        f'<span class="arrow {style}" aria-label="to">⟶</span>{box(target, target_owner)}'
    )


def _marks(records: Sequence[Record]) -> str:
    """Every mark of the runs, with what it means."""
    counts = {name: [r.marks.get(name, 0) for r in records] for r in records for name in r.marks}
    rows = "".join(
        f"<details><summary>{escape(name)}: {', '.join(map(str, numbers))}</summary>{as_html(name)}</details>"
        for name, numbers in sorted(counts.items())
    )
    return f"<h2>marks: what this schedule exercised</h2>{rows or '<p>none</p>'}"
