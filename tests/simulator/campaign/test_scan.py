"""Campaigns over packs: what they flag, what they leave to runs alone, and what kernels that misbehave do to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.fuzz import Campaign
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.scan import Record, Scan, Universe
from stalerow.simulator.commands import cli
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject

BATCH_ROW = Subject(kernels="reference:batch-row")
REQ_IDX = Subject(kernels="reference:req-idx")


class Quiet:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def tick(self, tally: Tally, doing: Any) -> None: ...
    def finding(self, finding: Finding) -> None: ...
    def breach(self, finding: Finding) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


def scanned(
    subject: Subject, count: int, universes: int, jobs: int, families: int = 2, together: bool = False
) -> tuple[list[Universe], Tally]:
    tally = Tally()
    scan = Scan(subject, (Draw(n) for n in range(count)), universes, families, jobs, keep_going=True)
    scan.together = together
    return scan.run(tally, lambda: None), tally


def fuzz(folder: Path, subject: Subject, **options: Any) -> tuple[Tally, Quiet]:
    listener = Quiet()
    return Campaign(Options(subject=subject, folder=folder, jobs=2, **options), listener).run(), listener


def test_exactly_the_violating_schedules_are_flagged_whatever_the_number_of_jobs() -> None:
    flagged, tally = scanned(BATCH_ROW, 40, 10, 2)
    again, _ = scanned(BATCH_ROW, 40, 10, 1)
    assert flagged == again
    executed_by_one, others = scanned(BATCH_ROW, 40, 10, 2, together=True)
    assert (executed_by_one, others.marks) == (flagged, tally.marks)
    expected = []
    for number in range(40):
        seed = Draw(number, runner="v2", family=number // 10 % 2)
        outcome = run(from_draw(seed), BATCH_ROW.load())
        if outcome.violations:
            expected.append((seed, outcome.memory))
    assert [(universe.draw, universe.memory) for universe in flagged] == expected
    assert 0 < len(expected) < 40
    assert tally.schedules == 40 - len(expected)


def test_a_finding_is_shrunk_and_its_seed_replays_from_the_command_that_is_printed(tmp_path: Path, capsys: Any) -> None:
    tally, listener = fuzz(tmp_path, BATCH_ROW, runs=40, universes=10, families=3)
    (finding,) = tally.findings
    assert tally.exit_code() == 1
    assert finding.failure.shrunk
    assert "flagged in packs of 10" in listener.notes[0]
    origin = finding.failure.origin
    _, _, *arguments = origin.command.split()
    assert "--family" in arguments
    assert cli.main(["replay", *arguments]) == 1
    assert origin.digest in capsys.readouterr().out
    assert failures.load(finding.path).failure == finding.failure


def test_a_clean_campaign_counts_every_schedule_and_its_marks(tmp_path: Path) -> None:
    tally, listener = fuzz(tmp_path, REQ_IDX, runs=60, universes=20, families=3)
    assert (tally.schedules, tally.exit_code()) == (60, 0)
    assert tally.marks["deferred postprocess over a re-gathered table"] > 10
    assert listener.notes == ["0 of 60 schedules flagged in packs of 20"]


def test_time_bounds_a_scan_and_a_pack_that_did_not_end_is_no_silence(tmp_path: Path) -> None:
    _, listener = fuzz(tmp_path, REQ_IDX, seconds=0.5, universes=5000, families=1)
    assert listener.notes == [
        "0 of 0 schedules flagged in packs of 5000",
        "no pack ended in time: give more time, or fewer universes",
    ]


@pytest.mark.parametrize("name", ["segfaults", "exits"])
def test_a_pack_that_kills_its_worker_leads_to_the_seed_that_did(tmp_path: Path, doubles: str, name: str) -> None:
    tally, _ = fuzz(tmp_path, Subject(kernels=f"stalerow_doubles:{name}"), runs=8, universes=4, families=1)
    assert [finding.failure.kind for finding in tally.findings] == [failures.CRASH]


def test_an_error_in_the_kernels_is_told_with_its_seed(tmp_path: Path, doubles: str) -> None:
    tally, _ = fuzz(tmp_path, Subject(kernels="stalerow_doubles:raises"), runs=8, universes=4, families=1)
    assert tally.exit_code() == 1
    assert tally.findings[0].failure.kind == "kernel raised"


def test_what_needs_no_kernel_to_show_is_flagged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made as meant, by way of a block that its request does not own."""
    seeds = tuple(Draw(number, runner="v2", family=1) for number in range(3))
    assert not any(universe.flagged for universe in Record(seeds, REQ_IDX, 3).do())
    monkeypatch.setattr(Ledger, "owns", lambda *_: False)
    found = Record(seeds, REQ_IDX, 3).do()
    assert any(universe.flagged for universe in found)
    assert not any(universe.unlike for universe in found)


def test_a_pack_that_says_otherwise_than_a_run_alone_is_a_breach() -> None:
    clean, flagged = Universe(Draw(1), "aa"), Universe(Draw(1), "aa", "reads of the forward, step 3, rank 0")
    assert clean.differs("aa", False, True) == ""
    assert clean.differs("bb", False, False) == "memory aa in a pack, but bb alone"
    assert flagged.differs("aa", False, True) == "reads of the forward, step 3, rank 0 in a pack, but clean alone"
    assert clean.differs("aa", True, True) == "clean in a pack, but violating alone"
    assert flagged.differs("bb", True, True) == "memory aa in a pack, but bb alone"
    # Wrong copies may race.
    assert flagged.differs("bb", True, False) == ""


def test_a_pack_that_fails_where_each_of_its_schedules_is_clean_is_no_clean_campaign(
    tmp_path: Path, doubles: str
) -> None:
    """Kernels that refuse more rows than one schedule has: no run alone shows anything."""
    tally, _ = fuzz(tmp_path, Subject(kernels="stalerow_doubles:narrow"), runs=8, universes=8, families=1)
    (breach,) = tally.breaches
    assert tally.exit_code() == 3
    assert "showed nothing: ValueError('too many rows')" in breach.failure.note
    assert "none of them fails alone" in breach.failure.note


def test_kernels_that_read_the_clock_are_found_out(tmp_path: Path, doubles: str) -> None:
    tally, _ = fuzz(tmp_path, Subject(kernels="stalerow_doubles:clock"), runs=4, universes=4, families=1)
    assert tally.exit_code() == 3


def test_what_packs_cannot_run_is_refused(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(UsageError, match="leave out --fault or --universes"):
        fuzz(tmp_path, Subject(kernels="reference:req-idx", faults=("stale-accept",)), runs=4, universes=4)
    assert cli.main(["fuzz", "--kernels", "reference:req-idx", "--universes", "4", "--runner", "v1"]) == 2
    assert "--universes runs under runner v2 only" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["replay", "3", "--family", "x"])
    assert "'x' is not a number" in capsys.readouterr().err


def test_kernels_that_do_not_return_end_their_pack_and_are_a_finding(
    tmp_path: Path, doubles: str, hanging: None
) -> None:
    tally, listener = fuzz(
        tmp_path / "failures", Subject(kernels="stalerow_doubles:hangs"), runs=2, universes=2, schedule_s=3.0
    )
    (finding,) = tally.findings
    assert finding.failure.kind == "hang"
    assert "2 of 2 schedules flagged in packs of 2" in listener.notes
    assert tally.exit_code() == 1
