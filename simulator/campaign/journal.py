"""How far a campaign has come, in a file that it goes on from after Ctrl-C, a kill or a lost machine.

Results are taken in the order of seeds, so how many have been settled says which: those after them are done again, and
what was found among them is found again, into the same files. A failure that was still being shrunk is shrunk again.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from pathlib import Path

import msgspec

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.trials import Reduction
from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import read_bounded, write_beside
from stalerow.simulator.schedule.draw import SEEDS, Draw
from stalerow.simulator.subject.subject import Subject

FORMAT = 1


class Asked(msgspec.Struct, frozen=True):
    """The options that decide what a campaign finds; with others it is another campaign."""

    subject: Subject
    draw: Draw
    runs: int | None
    shard: tuple[int, int]
    keep_going: bool
    seeds: tuple[int, ...] | None = None


class Journal(msgspec.Struct, kw_only=True):
    """`settled`: seeds whose results have been taken. `known`: (kind, launch) of what was found; `found` and
    `breaches`: the files. `pending`: failures that wait to be shrunk."""

    campaign_format: int = FORMAT
    asked: Asked
    settled: int = 0
    over: bool = False
    schedules: int = 0
    skipped: int = 0
    kinds: dict[str, int] = {}
    marks: dict[str, int] = {}
    first_seen: dict[str, int] = {}
    known: list[tuple[str, str]] = []
    found: list[str] = []
    breaches: list[str] = []
    pending: list[Reduction] = []

    def restore(self, tally: Tally) -> None:
        """Put the sums and the findings back. Raises `UsageError` for a finding whose file is gone."""
        tally.schedules, tally.skipped = self.schedules, self.skipped
        tally.kinds, tally.marks = Counter(self.kinds), Counter(self.marks)
        tally.first_seen = dict(self.first_seen)
        tally.findings = [_finding(path) for path in self.found]
        tally.breaches = [_finding(path) for path in self.breaches]

    def note(self, tally: Tally) -> None:
        """Take the sums and the findings over."""
        self.schedules, self.skipped = tally.schedules, tally.skipped
        self.kinds, self.marks, self.first_seen = dict(tally.kinds), dict(tally.marks), dict(tally.first_seen)
        self.found = [str(finding.path) for finding in tally.findings]
        self.breaches = [str(finding.path) for finding in tally.breaches]


def _finding(path: str) -> Finding:
    return Finding(failures.load(path).failure, Path(path))


def asked(options: Options) -> Asked:
    return Asked(options.subject, options.draw, options.runs, options.shard, options.keep_going, options.seeds)


def file_of(options: Options) -> Path:
    """Beside the folder of failures; another file for another campaign."""
    key = blake2b(msgspec.json.encode(asked(options)), digest_size=6).hexdigest()
    return options.folder.parent / "campaigns" / f"{key}.json"


def to_json(journal: Journal) -> bytes:
    return msgspec.json.encode(journal) + b"\n"


def save(journal: Journal, path: Path) -> None:
    write_beside(path, to_json(journal))


def load(options: Options) -> Journal:
    """The journal of a campaign with these options. Raises `UsageError` if there is none that can be read."""
    path = file_of(options)
    try:
        journal = msgspec.json.decode(read_bounded(path), type=Journal)
    except FileNotFoundError:
        raise UsageError(f"{path}: no campaign with these options to go on with: leave out --resume") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): leave out --resume") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"{path}: not a campaign's file ({error}): leave out --resume to start again") from None
    if journal.campaign_format != FORMAT:
        raise UsageError(f"{path}: campaign_format is {journal.campaign_format}, this release reads {FORMAT}")
    _refuse_foreign(journal, options, path)
    return journal


def _refuse_foreign(journal: Journal, options: Options, path: Path) -> None:
    """A file may say how far this campaign has come, and not what it runs."""
    subjects = (options.subject, options.subject.twin())
    mine = all(r.subject == options.subject and r.finder in subjects for r in journal.pending)
    counts = (journal.settled, journal.schedules, *journal.kinds.values(), *journal.marks.values())
    most = SEEDS if options.runs is None else options.runs
    if journal.asked != asked(options) or not mine or not all(0 <= count <= most for count in counts):
        raise UsageError(f"{path}: not of a campaign with these options: leave out --resume to start again")
    if any(r.seen.violation is None or not r.seen.digests for r in journal.pending):
        raise UsageError(f"{path}: 'pending' has what does not fail: leave out --resume to start again")
