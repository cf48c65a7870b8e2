"""Saved failures: what is written is what is read, also by another release."""

import os

import msgspec
import pytest

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.failures import Failure, Origin
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

SUBJECT = Subject(kernels="reference:batch-row")
SEED = 7


@pytest.fixture(scope="module")
def failure():
    schedule = from_seed(SEED)
    outcome = SUBJECT.run(schedule)
    return Failure(
        kind=outcome.violations[0].kind,
        subject=SUBJECT,
        violation=outcome.violations[0],
        digest=outcome.digest,
        origin=Origin(draw=Draw(SEED), command="stalerow replay 7"),
        versions=failures.versions(),
        schedule=schedule,
    )


@pytest.fixture
def data(failure):
    return msgspec.json.decode(failures.to_json(failure))


def rewrite(tmp_path, data):
    path = tmp_path / "old.json"
    path.write_bytes(msgspec.json.encode(data))
    return path


def test_a_saved_failure_reads_back_equal(tmp_path, failure):
    path = failures.save(failure, tmp_path)
    assert failures.load(path) == failures.Loaded(path, failure, ())
    assert failures.saved(tmp_path) == [path]


def test_saving_twice_leaves_one_file_with_a_telling_name(tmp_path, failure):
    first = failures.save(failure, tmp_path)
    assert failures.save(failure, tmp_path) == first
    assert [p.name for p in tmp_path.iterdir()] == [first.name]
    assert "reference_batch_row" in first.name
    assert first.name.endswith("-seed7.json")


@pytest.mark.parametrize(
    "other",
    [
        {"draw": Draw(SEED, pp=4)},
        {"draw": Draw(SEED, family=0)},
        {"draw": Draw(SEED, faithful=True)},
        {"draw": Draw(SEED, runner="v1")},
        {"draw": Draw(SEED, profile="0.33")},
        {"digest": "e" * 32},
    ],
    ids=str,
)
def test_two_findings_of_one_seed_have_a_file_each(tmp_path, failure, other):
    second = msgspec.structs.replace(failure, origin=msgspec.structs.replace(failure.origin, **other))
    paths = [failures.save(f, tmp_path) for f in (failure, second, failure, second)]
    assert len(set(paths)) == 2
    assert [failures.load(p).failure for p in paths[:2]] == [failure, second]


def test_kernels_whose_names_look_alike_in_a_file_name_have_a_file_each(tmp_path, failure):
    names = ("/k/a-b.py", "/k/a/b.py", "/k/a_b.py")
    alike = [msgspec.structs.replace(failure, subject=Subject(kernels=name)) for name in names]
    paths = [failures.save(f, tmp_path) for f in alike]
    assert [failures.load(p).failure for p in paths] == alike


def test_shrinking_overwrites_the_same_findings_file(tmp_path, failure):
    origin = msgspec.structs.replace(failure.origin, digest=failure.digest)
    unshrunk = msgspec.structs.replace(failure, origin=origin)
    small = msgspec.structs.replace(unshrunk, digest="d" * 32, shrunk=True)
    assert failures.save(unshrunk, tmp_path) == failures.save(small, tmp_path)
    assert failures.load(failures.saved(tmp_path)[0]).failure == small


def test_a_file_of_format_1_is_read_without_a_word(tmp_path, data, failure):
    data["failure_format"] = data["schedule"]["format"] = 1
    data["schedule"] |= {"seed": data["schedule"].pop("draw")["seed"]}
    data["origin"] |= {"seed": data["origin"].pop("draw")["seed"]}
    assert failures.load(rewrite(tmp_path, data)) == failures.Loaded(tmp_path / "old.json", failure, ())


def test_half_written_files_of_dead_processes_are_swept(tmp_path, failure):
    path = failures.save(failure, tmp_path)
    dead, mine = tmp_path / ".a.json.999999999.tmp", tmp_path / f".b.json.{os.getpid()}.tmp"
    dead.write_bytes(b"{")
    mine.write_bytes(b"{")
    failures.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([path, mine])


def test_fields_of_other_releases_are_named_and_left_out(tmp_path, data, failure):
    data["mood"] = "blue"
    data["schedule"]["pipeline"]["expert_parallel"] = 2
    data["schedule"]["requests"][0]["lora"] = 1
    loaded = failures.load(rewrite(tmp_path, data))
    assert loaded.failure == failure
    assert loaded.problems == (
        "mood is not known to this release: left out",
        "schedule.pipeline.expert_parallel is not known to this release: left out",
        "schedule.requests[0].lora is not known to this release: left out",
    )


def test_missing_fields_take_their_defaults(tmp_path, data):
    del data["schedule"]["requests"][0]["arrival"]
    del data["origin"]
    loaded = failures.load(rewrite(tmp_path, data))
    assert loaded.problems == ()
    assert loaded.failure.schedule.requests[0].arrival == 1


def test_values_that_no_longer_fit_are_named_with_what_replaces_them(tmp_path, data):
    data["schedule"]["layout"]["conv_layout"] = "SWIZZLED"
    (problem,) = failures.load(rewrite(tmp_path, data)).problems
    assert "schedule.layout.conv_layout is 'SWIZZLED'" in problem
    assert "its default is used" in problem


def test_other_formats_are_read_field_by_field(tmp_path, data, failure):
    data["failure_format"], data["schedule"]["format"] = 0, 9
    loaded = failures.load(rewrite(tmp_path, data))
    assert loaded.failure == failure
    assert [p.split(" is ")[0] for p in loaded.problems] == ["failure_format", "schedule.format"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("schedule"), "it has no 'schedule'"),
        (lambda d: d["schedule"].pop("requests"), "schedule.requests is missing"),
        (lambda d: d["schedule"]["requests"][0].update(prompt_len="long"), r"schedule.requests\[0\].prompt_len"),
        (lambda d: d["schedule"]["pipeline"].update(profile="0.1"), "known profiles are"),
    ],
)
def test_what_cannot_be_replayed_says_why(tmp_path, data, change, says):
    change(data)
    with pytest.raises(UsageError, match=says):
        failures.load(rewrite(tmp_path, data))


def test_files_that_are_not_failures(tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert not failures.is_failure(broken)
    with pytest.raises(UsageError, match="not valid JSON"):
        failures.load(broken)
    with pytest.raises(UsageError, match="cannot be read"):
        failures.load(tmp_path / "none.json")
