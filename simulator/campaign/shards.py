"""The shards of one campaign added up: what `fuzz --json` wrote of each, or the journals that campaigns keep.

Each says which seeds it had, so what does not belong together is refused, and a shard that is not among them is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.journal import FORMAT, Journal
from stalerow.simulator.campaign.summary import CampaignSummary
from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import read_data
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

WANTED = "what 'stalerow fuzz --json FILE' wrote, or a journal of .stalerow/campaigns"


@dataclass(frozen=True, slots=True)
class Seeds:
    """What shards of one campaign have in common: the subject, and the seeds, which are dealt out over `shards`."""

    subject: Subject
    draw: Draw
    runs: int | None
    seeds: tuple[int, ...] | None
    shards: int


@dataclass(frozen=True, slots=True)
class Part:
    """Shard `number` (from 1), as the file `path` tells it; `state`: how it ended, in words."""

    path: Path
    of: Seeds
    number: int
    state: str
    schedules: int
    skipped: int
    kinds: dict[str, int]
    marks: dict[str, int]
    findings: tuple[Finding, ...]
    breaches: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """All parts, by number. `more`: of a finding that several shards made, by its path, how many others there are."""

    parts: tuple[Part, ...]
    tally: Tally
    more: dict[Path, int]

    @property
    def missing(self) -> list[int]:
        """Shards that no file tells of."""
        return sorted({*range(1, self.parts[0].of.shards + 1)} - {part.number for part in self.parts})


def read(path: Path) -> Part:
    """Raises `UsageError` for a file that tells of no shard, or whose failures are not there."""
    data = read_data(path, WANTED)
    try:
        if isinstance(data, dict) and "campaign_format" in data:
            return _of_journal(path, msgspec.convert(data, Journal))
        return _of_summary(path, msgspec.convert(data, CampaignSummary))
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: tells of no shard ({error}): give {WANTED}") from None


def _of_summary(path: Path, told: CampaignSummary) -> Part:
    number, shards = told.shard
    return Part(
        path=path,
        of=Seeds(told.subject, told.draw, told.runs, told.seeds, shards),
        number=number,
        state="interrupted" if told.interrupted else f"ended after {told.seconds:.0f} s",
        schedules=told.schedules,
        skipped=told.skipped,
        kinds=told.kinds,
        marks=told.marks,
        findings=_findings(path, [saved.path for saved in told.findings]),
        breaches=_findings(path, [saved.path for saved in told.breaches]),
    )


def _of_journal(path: Path, told: Journal) -> Part:
    if told.campaign_format != FORMAT:
        raise UsageError(f"{path}: campaign_format is {told.campaign_format}, this release reads {FORMAT}")
    asked = told.asked
    number, shards = asked.shard
    return Part(
        path=path,
        of=Seeds(asked.subject, asked.draw, asked.runs, asked.seeds, shards),
        number=number,
        state=f"{told.settled} seeds done",
        schedules=told.schedules,
        skipped=told.skipped,
        kinds=told.kinds,
        marks=told.marks,
        findings=_findings(path, told.found),
        breaches=_findings(path, told.breaches),
    )


def _findings(path: Path, named: Sequence[str]) -> tuple[Finding, ...]:
    return tuple(Finding(failures.load(found).failure, found) for found in (_beside(path, name) for name in named))


def _beside(path: Path, named: str) -> Path:
    """The file that a shard named from where it ran: as much of its path as there is beside `path`, or above it."""
    parts = Path(named).parts
    tails = [Path(*parts[start:]) for start in range(len(parts))]
    places = [folder / tail for folder in (path.parent, path.parent.parent) for tail in tails]
    for place in (*places, Path(named)):
        if place.is_file():
            return place
    raise UsageError(f"{path}: names {named}, which is not beside it: bring the shard's folder of failures along")


def add(parts: Sequence[Part]) -> Sum:
    """Raises `UsageError` for shards of several campaigns, and for one that is there twice."""
    parts = sorted(parts, key=lambda part: part.number)
    first = parts[0]
    for before, part in pairwise(parts):
        if part.of != first.of:
            raise UsageError(f"{part.path}: of another campaign than {first.path}: {_difference(first.of, part.of)}")
        if part.number == before.number:
            raise UsageError(f"{part.path}: is shard {part.number}, as {before.path} is: leave one of them out")
    tally = Tally()
    for part in parts:
        tally.schedules += part.schedules
        tally.skipped += part.skipped
        tally.kinds += Counter(part.kinds)
        tally.marks += Counter(part.marks)
    more: dict[Path, int] = {}
    tally.findings = _distinct([f for part in parts for f in part.findings], more)
    tally.breaches = _distinct([f for part in parts for f in part.breaches], more)
    return Sum(tuple(parts), tally, more)


def _difference(one: Seeds, other: Seeds) -> str:
    """The first thing in which they differ."""
    for name in ("subject", "draw", "runs", "seeds", "shards"):
        a, b = getattr(one, name), getattr(other, name)
        if a != b:
            return f"{name} {b} and {a}"
    return "nothing"


def _distinct(found: Sequence[Finding], more: dict[Path, int]) -> list[Finding]:
    """The smallest of each kind and launch."""
    kept: dict[tuple[str, str], Finding] = {}
    for finding in sorted(found, key=_size):
        first = kept.setdefault(finding.failure.signature, finding)
        if first is not finding:
            more[first.path] = more.get(first.path, 0) + 1
    return list(kept.values())


def _size(finding: Finding) -> tuple[bool, int, int, str]:
    failure = finding.failure
    return not failure.shrunk, len(failure.schedule.requests), failure.schedule.order.deviations, str(finding.path)
