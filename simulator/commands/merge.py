"""Add up the shards of a campaign: one page of what all of them ran and found, from their `fuzz --json` or journals."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.commands import display
from stalerow.simulator.commands.options import add_json
from stalerow.simulator.oracle.explain.numbers import counted

if TYPE_CHECKING:
    from stalerow.simulator.campaign.shards import Sum


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="what 'stalerow fuzz --shard I/N --json FILE' wrote, or a journal (.stalerow/campaigns), with the folder "
        "of failures beside it",
    )
    parser.add_argument("--require-marks", action="store_true", help="fail if no shard met a situation worth testing")
    display.add_html(parser, "all shards, with a page of each failure beside its file,")
    add_json(parser, "merge")


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.campaign.shards import add, read

    total = add([read(path) for path in args.files])
    _print(total, args.require_marks)
    if args.json:
        from stalerow.simulator.commands import answers

        answers.write(args, answers.merged(total))
    if args.html:
        _report(args.html, total)
    return total.tally.exit_code(args.require_marks) or int(bool(total.missing))


def _print(total: Sum, require_marks: bool) -> None:
    from stalerow.simulator.commands.screen.report import absent
    from stalerow.simulator.commands.screen.results import console
    from stalerow.simulator.draw.prose import say
    from stalerow.simulator.oracle.violations import MARKS

    out, tally, of = console(), total.tally, total.parts[0].of
    say(
        out,
        f"{of.subject}: {len(total.parts)} of {counted(of.shards, 'shard')}, {counted(tally.schedules, 'schedule')}",
    )
    if total.missing:
        say(out, absent(total))
    say(out, f"violating: {', '.join(f'{kind} {count}' for kind, count in tally.kinds.most_common()) or 'none'}")
    seen = ", ".join(f"{mark} {tally.marks[mark]}" for mark in MARKS if mark in tally.marks) or "none"
    say(out, f"marks (schedules that had one): {seen}")
    if tally.missed:
        say(out, f"marks not seen: {', '.join(tally.missed)}")
        if require_marks:
            say(out, "failed: --require-marks was given and marks are missing; run more seeds, or other ones")
    for finding in [*tally.findings, *tally.breaches]:
        more = total.more.get(finding.path, 0)
        others = f" (and {more} more like it)" if more else ""
        out.print(f"{finding.failure.kind}: {finding.path}{others}", markup=False, soft_wrap=True)


def _report(path: str, total: Sum) -> None:
    from stalerow.simulator.commands.failures import failing_page
    from stalerow.simulator.commands.screen.report import shards
    from stalerow.simulator.commands.screen.results import console
    from stalerow.simulator.subject.trust import untrusted

    out, pages = console(), {}
    for finding in total.tally.findings:
        made = finding.path.with_suffix(".html")
        if made.is_file():
            pages[finding.path] = made
        elif not untrusted(finding.failure.subject):  # shards may come from elsewhere
            shown = failing_page(finding.failure, finding.path, out)
            pages |= {} if shown is None else {finding.path: shown}
    display.save(path, shards(total, pages, Path(path).absolute().parent), "page", out)
