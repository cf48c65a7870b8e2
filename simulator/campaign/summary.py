"""What a campaign or a search came to, as JSON for other programs. The schema's number changes with its fields."""

from __future__ import annotations

from typing import Literal

import msgspec

from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject


class Saved(msgspec.Struct, frozen=True):
    """A failure and its file."""

    kind: str
    launch: str
    path: str


class CampaignSummary(msgspec.Struct, frozen=True, kw_only=True):
    """skipped: schedules that lack what a fault needs; kinds: schedules by the kind of their first violation; marks:
    schedules that had one; first_seen: the schedule, from 1, that had a mark first; plateau: schedules since a new
    mark. `shard` (i, n): every n-th seed from the i-th on, of `seeds` or of `runs` (None: as time allowed).
    """

    schema: Literal["stalerow.fuzz/1"] = "stalerow.fuzz/1"
    subject: Subject
    draw: Draw
    schedules: int
    skipped: int = 0
    seconds: float
    kinds: dict[str, int]
    marks: dict[str, int]
    first_seen: dict[str, int]
    missed: list[str]
    plateau: int
    findings: list[Saved]
    breaches: list[Saved]
    interrupted: bool
    shard: tuple[int, int] = (1, 1)
    runs: int | None = None
    seeds: tuple[int, ...] | None = None


def of_campaign(options: Options, tally: Tally) -> CampaignSummary:
    return CampaignSummary(
        subject=options.subject,
        draw=options.draw,
        schedules=tally.schedules,
        skipped=tally.skipped,
        seconds=round(tally.seconds, 3),
        kinds=dict(tally.kinds),
        marks=dict(tally.marks),
        first_seen=tally.first_seen,
        missed=tally.missed,
        plateau=tally.plateau,
        findings=[saved(finding) for finding in tally.findings],
        breaches=[saved(finding) for finding in tally.breaches],
        interrupted=tally.interrupted,
        shard=options.shard,
        runs=options.runs,
        seeds=options.seeds,
    )


def saved(finding: Finding) -> Saved:
    kind, launch = finding.failure.signature
    return Saved(kind, launch, str(finding.path))
