"""Shards of one campaign add up, whichever file told of them; what does not belong together is refused by name."""

import dataclasses

import msgspec
import pytest

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.journal import Asked, Journal
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.shards import Part, Seeds, add, read
from stalerow.simulator.campaign.summary import of_campaign
from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import write_beside
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")
SEEDS = Seeds(SUBJECT, Draw(5), 6, None, 3)


def part(path, number: int, of: Seeds = SEEDS, **given) -> Part:
    made = {"state": "", "schedules": 2, "skipped": 1, "kinds": {"leak": 1}, "marks": {"preemption": 2}}
    return Part(path=path / f"{number}.json", of=of, number=number, **made | {"findings": (), "breaches": ()} | given)


def finding(seen, path, *, shrunk: bool = False, kind: str = "stale slot") -> Finding:
    made = findings.unshrunk(seen, SUBJECT, "")
    return Finding(msgspec.structs.replace(made, shrunk=shrunk, kind=kind, violation=None), path)


def test_shards_add_up_in_the_order_of_their_numbers_and_those_that_lack_are_named(tmp_path):
    whole = add([part(tmp_path, 3), part(tmp_path, 1)])
    assert [p.number for p in whole.parts] == [1, 3]
    assert whole.missing == [2]
    assert (whole.tally.schedules, whole.tally.skipped) == (4, 2)
    assert (whole.tally.kinds, whole.tally.marks) == ({"leak": 2}, {"preemption": 4})


def test_of_one_finding_the_smallest_is_kept_and_the_others_are_counted(tmp_path, seen):
    large, small = finding(seen, tmp_path / "a.json"), finding(seen, tmp_path / "b.json", shrunk=True)
    other = finding(seen, tmp_path / "c.json", kind="leak")
    whole = add([part(tmp_path, 1, findings=(large, other)), part(tmp_path, 2, findings=(small,), breaches=(large,))])
    assert {f.path for f in whole.tally.findings} == {small.path, other.path}
    assert whole.more == {small.path: 1}
    assert whole.tally.breaches == [large]


@pytest.mark.parametrize("field", ["subject", "draw", "runs", "seeds", "shards"])
def test_a_shard_of_another_campaign_is_refused_by_what_differs(tmp_path, field):
    other = {"subject": Subject(kernels="mine"), "draw": Draw(6), "runs": 7, "seeds": (1,), "shards": 4}[field]
    strange = part(tmp_path, 2, dataclasses.replace(SEEDS, **{field: other}))
    with pytest.raises(UsageError, match=f"2.json: of another campaign than .*1.json: {field} "):
        add([part(tmp_path, 1), strange])


def test_a_shard_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"is shard 1, as .* is: leave one of them out"):
        add([part(tmp_path, 1), part(tmp_path, 1)])


@pytest.fixture
def saved(tmp_path, seen):
    """A shard's folder somewhere else: what its campaign said, with a failure in it; the failure's path."""
    path = failures.save(findings.unshrunk(seen, SUBJECT, ""), tmp_path / "failures")
    tally = Tally(skipped=1)
    tally.findings.append(Finding(failures.load(path).failure, path))
    tally.schedules = 2
    told = of_campaign(Options(SUBJECT, Draw(5), runs=6, shard=(2, 3)), tally)
    write_beside(tmp_path / "fuzz.json", msgspec.json.encode(told))
    asked = Asked(SUBJECT, Draw(5), 6, (2, 3), False)
    journal = Journal(asked=asked, settled=2, schedules=2, skipped=1, found=[f"/elsewhere/failures/{path.name}"])
    write_beside(tmp_path / "campaigns.json", msgspec.json.encode(journal))
    return path


@pytest.mark.parametrize("name", ["fuzz.json", "campaigns.json"])
def test_a_shard_is_read_from_either_file_with_its_failures_beside_it(tmp_path, saved, name):
    found = read(tmp_path / name)
    assert (found.of, found.number, found.schedules, found.skipped) == (SEEDS, 2, 2, 1)
    assert [f.path for f in found.findings] == [saved]


def test_a_failure_that_was_left_behind_is_named(tmp_path, saved):
    saved.unlink()
    with pytest.raises(UsageError, match=r"campaigns.json: names .*, which is not beside it: bring the shard's folder"):
        read(tmp_path / "campaigns.json")


def test_a_file_that_tells_of_no_shard_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"schema": "stalerow.fuzz/1"}')
    with pytest.raises(UsageError, match=r"x.json: tells of no shard \(.*\): give what 'stalerow fuzz --json FILE'"):
        read(tmp_path / "x.json")
    (tmp_path / "y.json").write_bytes(
        msgspec.json.encode(Journal(campaign_format=9, asked=Asked(SUBJECT, Draw(5), 6, (1, 3), False)))
    )
    with pytest.raises(UsageError, match="campaign_format is 9, this release reads 1"):
        read(tmp_path / "y.json")
