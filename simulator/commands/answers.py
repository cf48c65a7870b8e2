"""What commands write with `--json`: one struct each, whose `schema` names it and counts its versions.

A number goes up when a field goes or changes its meaning, not when one is added. Reading needs nothing of ours but the
type, which refuses a file of another schema: `msgspec.json.decode(data, type=RunAnswer)`; `json_schema` says the same
to other languages. The catalogue's answer is `scenarios.command.ScenariosAnswer`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from stalerow.kernels.external.describe import Description
from stalerow.simulator.campaign.again import Replayed
from stalerow.simulator.campaign.compare import Row
from stalerow.simulator.campaign.shards import Sum
from stalerow.simulator.campaign.summary import CampaignSummary, Saved, saved
from stalerow.simulator.conform.agreement import Conformance
from stalerow.simulator.errors import UsageError
from stalerow.simulator.explore.bounds import Bounds
from stalerow.simulator.explore.orders import Counts
from stalerow.simulator.files import write_beside
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.serve.report import RunResult
from stalerow.simulator.subject.subject import Subject

STDOUT = "-"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all answers; each has a field `schema` of one value."""


class RunAnswer(Answer, frozen=True, kw_only=True):
    """One run. `difference`: where it leaves the recorded run that it was made from, if it does."""

    schema: Literal["stalerow.run/1"] = "stalerow.run/1"
    subject: Subject
    draw: Draw | None
    violations: tuple[Violation, ...]
    marks: dict[str, int]
    steps: int
    decisions: int
    stopped: str
    digest: str
    memory: str
    difference: str | None = None


class ReplayAnswer(Answer, frozen=True, kw_only=True):
    """What was run again, one or a folder of them."""

    schema: Literal["stalerow.replay/1"] = "stalerow.replay/1"
    replays: tuple[Replayed, ...]


class CompareAnswer(Answer, frozen=True, kw_only=True):
    """The table: a row for every setting and kernel set."""

    schema: Literal["stalerow.compare/1"] = "stalerow.compare/1"
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]


class ExploreAnswer(Answer, frozen=True, kw_only=True):
    """A search: `done` of `workloads` of the `bounds`, None for a schedule that was given.

    `clean`: the bound within which nothing can go wrong, every workload, acceptance and order tried; None if there is
    none yet. `crashed`: workloads that killed their process. `skipped` schedules lack what a fault needs.
    """

    schema: Literal["stalerow.explore/1"] = "stalerow.explore/1"
    subject: Subject
    bounds: Bounds | None
    workloads: int
    done: int
    schedules: int
    failed: int
    counts: Counts
    clean: Bounds | None
    failures: tuple[Saved, ...]
    crashed: tuple[str, ...]
    skipped: int = 0
    seconds: float
    interrupted: bool


class ShardTold(msgspec.Struct, frozen=True):
    """A shard, from 1, as its file told it; `state`: how it ended."""

    number: int
    path: str
    schedules: int
    state: str


class MergeAnswer(Answer, frozen=True, kw_only=True):
    """Shards of one campaign added up; `missing`: those of all `of` that no file told of."""

    schema: Literal["stalerow.merge/1"] = "stalerow.merge/1"
    subject: Subject
    draw: Draw
    of: int
    shards: tuple[ShardTold, ...]
    missing: tuple[int, ...]
    schedules: int
    skipped: int
    kinds: dict[str, int]
    marks: dict[str, int]
    missed: tuple[str, ...]
    findings: tuple[Saved, ...]
    breaches: tuple[Saved, ...]


def merged(total: Sum) -> MergeAnswer:
    of, tally = total.parts[0].of, total.tally
    return MergeAnswer(
        subject=of.subject,
        draw=of.draw,
        of=of.shards,
        shards=tuple(ShardTold(p.number, str(p.path), p.schedules, p.state) for p in total.parts),
        missing=tuple(total.missing),
        schedules=tally.schedules,
        skipped=tally.skipped,
        kinds=dict(tally.kinds),
        marks=dict(tally.marks),
        missed=tuple(tally.missed),
        findings=tuple(map(saved, tally.findings)),
        breaches=tuple(map(saved, tally.breaches)),
    )


class Listed(msgspec.Struct, frozen=True):
    """A saved failure in short."""

    path: str
    kind: str
    launch: str
    subject: str
    requests: int
    deviations: int
    shrunk: bool


class FailuresAnswer(Answer, frozen=True, kw_only=True):
    """What is saved, and for `prune` what was removed."""

    schema: Literal["stalerow.failures/1"] = "stalerow.failures/1"
    failures: tuple[Listed, ...]
    removed: tuple[str, ...] = ()


class KernelsAnswer(Answer, frozen=True, kw_only=True):
    """Kernel sets by name; `description` is what was found in an engine's source, `lines` what the text says."""

    schema: Literal["stalerow.kernels/1"] = "stalerow.kernels/1"
    sets: tuple[str, ...]
    description: Description | None = None
    lines: tuple[str, ...] = ()


class ConformAnswer(Answer, frozen=True, kw_only=True):
    """Recorded or live runs, in order."""

    schema: Literal["stalerow.conform/1"] = "stalerow.conform/1"
    runs: tuple[Conformance, ...]


class ServeAnswer(Answer, frozen=True, kw_only=True):
    """Every run with its requests; `settings` are the command's options."""

    schema: Literal["stalerow.serve/1"] = "stalerow.serve/1"
    settings: dict[str, str | int | float | bool | list[str | int | float] | None]
    runs: tuple[RunResult, ...]


class ExplainAnswer(Answer, frozen=True, kw_only=True):
    """What can be asked for, under a title each, and the pages that were, as Markdown by name."""

    schema: Literal["stalerow.explain/1"] = "stalerow.explain/1"
    names: dict[str, tuple[str, ...]]
    pages: dict[str, str] = {}


class CompletionAnswer(Answer, frozen=True, kw_only=True):
    """The script for a shell."""

    schema: Literal["stalerow.completion/1"] = "stalerow.completion/1"
    shell: Literal["bash", "zsh"]
    script: str


class WorkerAnswer(Answer, frozen=True, kw_only=True):
    """The environment of `--worker`: its Python, and the releases that it can run."""

    schema: Literal["stalerow.worker/1"] = "stalerow.worker/1"
    python: str
    releases: tuple[str, ...]


ANSWERS: Mapping[str, type[msgspec.Struct]] = {
    "compare": CompareAnswer,
    "run": RunAnswer,
    "fuzz": CampaignSummary,
    "merge": MergeAnswer,
    "replay": ReplayAnswer,
    "worker": WorkerAnswer,
    "failures": FailuresAnswer,
    "kernels": KernelsAnswer,
    "explore": ExploreAnswer,
    "conform": ConformAnswer,
    "explain": ExplainAnswer,
    "completion": CompletionAnswer,
    "serve": ServeAnswer,
}
"""By command; the catalogue's is where the catalogue is."""


def json_schema(answer: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON Schema (2020-12) of an answer."""
    return msgspec.json.schema(answer)


def write(args: argparse.Namespace, answer: msgspec.Struct) -> None:
    """Write the answer where `--json` says, if it does. Raises `UsageError` where that cannot be."""
    path = args.json
    if path is None:
        return
    data = msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n"
    if path == STDOUT:
        print(data.decode(), end="")
        return
    try:
        write_beside(Path(path), data)
    except OSError as error:
        why = f"{path}: cannot be written ({error.strerror})"
        raise UsageError(f"{why}: give a file in a folder you may write to") from None
