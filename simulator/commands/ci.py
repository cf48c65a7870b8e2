"""What a CI service reads: one annotation per distinct violation and a step summary, as GitHub Actions takes them.

In: what a campaign or a test session found. Out: workflow commands on standard output and Markdown appended to the file
that the service names; nothing at all elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stalerow.simulator.campaign.findings import Tally
    from stalerow.simulator.campaign.options import Options


@dataclass(frozen=True, slots=True)
class Entry:
    """One distinct violation."""

    title: str
    text: str
    command: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Annotations:
    """`active`: print workflow commands. `summary`: the step summary's file."""

    active: bool = False
    summary: Path | None = None

    @classmethod
    def from_environment(cls) -> Annotations:
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        return cls(os.environ.get("GITHUB_ACTIONS") == "true", Path(summary) if summary else None)

    def campaign(self, options: Options, tally: Tally) -> None:
        """Report a fuzzing campaign."""
        entries = []
        for finding in [*tally.findings, *tally.breaches]:
            failure = finding.failure
            text = failure.violation.explanation if failure.violation else failure.note.splitlines()[0]
            draw = failure.origin.draw
            title = f"{failure.kind} ({failure.subject}{f', seed {draw.seed}' if draw else ''})"
            entries.append(Entry(title, text, failure.origin.command, str(finding.path)))
        i, n = options.shard
        head = f"stalerow fuzz, {options.subject}, shard {i}/{n}: {tally.schedules} schedules"
        clean = "No violation." if tally.schedules else "Nothing was run: no schedule ended."
        self.report(head, entries, tally.marks, tally.missed, clean)

    def report(
        self,
        head: str,
        entries: Sequence[Entry],
        marks: Mapping[str, int],
        missed: Sequence[str] = (),
        clean: str = "No violation.",
    ) -> None:
        if self.active:
            for entry in entries:
                print(f"::error title={_property(entry.title)}::{_data(f'{entry.text} | {entry.command}')}")
        if self.summary is not None:
            try:
                file = open(self.summary, "a", encoding="utf-8")  # noqa: SIM115
            except OSError as error:
                print(f"stalerow: step summary {self.summary}: {error.strerror}: not written", file=sys.stderr)
                return
            with file:
                file.write(_markdown(head, entries, marks, missed, clean))


def _markdown(head: str, entries: Sequence[Entry], marks: Mapping[str, int], missed: Sequence[str], clean: str) -> str:
    lines = [f"### {head}", ""]
    if entries:
        lines += ["| violation | what happened | replay |", "| --- | --- | --- |"]
        lines += [f"| {_cell(e.title)} | {_cell(e.text)} | `{_cell(e.command)}` |" for e in entries]
    else:
        lines.append(clean)
    seen = ", ".join(f"{name} {count}" for name, count in sorted(marks.items()))
    lines += ["", f"Marks: {seen or 'none'}."]
    if missed:
        lines.append(f"Marks not seen: {', '.join(missed)}.")
    return "\n".join(lines) + "\n\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
