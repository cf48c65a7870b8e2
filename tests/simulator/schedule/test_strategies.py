"""Properties over drawn schedules, and the assertion with its message."""

import os
import subprocess
import sys

import pytest
from hypothesis import Phase, find, given, settings

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.strategies import load_settings, schedules
from stalerow.simulator.schedule.values import validate
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.testing.isolation import STATISTICS, IsolationError, Statistics, assert_isolated


@settings(max_examples=40)
@given(schedules())
def test_drawn_schedules_are_valid(schedule):
    assert validate(schedule) is schedule


@settings(max_examples=10)
@given(schedules(pp=3, runner="v2"))
def test_pipeline_and_runner_can_be_fixed(schedule):
    assert (schedule.pipeline.pp, schedule.pipeline.runner) == (3, "v2")


@settings(max_examples=15)
@given(schedules())
def test_req_idx_isolates_requests(schedule):
    assert_isolated(schedule, "reference:req-idx")


def test_hypothesis_shrinks_to_the_simplest_schedule():
    # The explain phase would go on from the simplest schedule, and `find` returns what ran last.
    simplest = find(schedules(), lambda s: True, settings=settings(phases=(Phase.generate, Phase.shrink)))
    assert len(simplest.requests) == 1
    assert (simplest.pipeline.pp, simplest.pipeline.drafts, simplest.order.deviations) == (2, 1, 0)


def test_hypothesis_drops_requests_that_do_not_matter():
    found = find(schedules(), lambda s: any(r.prompt_len > 6 for r in s.requests) and len(s.order.holds) > 0)
    assert len(found.requests) <= 2
    assert len(found.order.holds) == 1


@pytest.mark.parametrize("kernels", ["reference:batch-row", Subject(kernels="reference:batch-row"), "set"])
def test_the_message_is_the_drawing(kernels):
    if kernels == "set":
        kernels = kernel_set("reference:batch-row")
    with pytest.raises(IsolationError) as caught:
        assert_isolated(from_seed(7), kernels)
    message = str(caught.value)
    assert "on rank 0, kernels reference:batch-row" in message
    assert "deferred postprocess of step" in message
    assert "again: stalerow replay 7 --kernels reference:batch-row" in message
    assert caught.value.schedule.draw == Draw(7)


def test_different_failures_are_different_types():
    types = set()
    for seed in (4, 7, 8):
        with pytest.raises(IsolationError) as caught:
            assert_isolated(from_seed(seed), "reference:batch-row")
        types.add(type(caught.value))
    assert len(types) == 2


def test_statistics_count_schedules_marks_and_kinds():
    before = Statistics()
    before.merge(STATISTICS.to_builtins())
    outcome = assert_isolated(from_seed(1), "reference:req-idx")
    assert STATISTICS.schedules == before.schedules + 1
    assert STATISTICS.kernels["reference:req-idx"] == before.kernels["reference:req-idx"] + 1
    assert all(STATISTICS.marks[m] == before.marks[m] + 1 for m in outcome.marks)


@pytest.fixture
def _keep_settings():
    yield
    settings.load_profile("suite")


@pytest.mark.usefixtures("_keep_settings")
@pytest.mark.parametrize(("name", "examples"), [("ci", 60), ("fuzz", 500), ("nightly", 5000)])
def test_settings(name, examples):
    chosen = load_settings(name)
    assert settings.default is chosen or settings().max_examples == examples
    assert chosen.derandomize is (name == "ci")
    assert chosen.print_blob


FAILING = """
from hypothesis import given, settings
from stalerow.simulator.schedule.strategies import load_settings, schedules

load_settings("fuzz")
ran = []

@settings(max_examples=MOST)
@given(schedules(pp=2))
def test_few_prompts_are_long(schedule):
    ran.append(schedule)
    assert all(r.prompt_len < 9 for r in schedule.requests)

try:
    test_few_prompts_are_long()
except BaseException:
    pass
print(len(ran), any(r.prompt_len >= 9 for r in ran[0].requests))
"""


def session(folder, shared, most):
    """(schedules run, whether the first fails) of a property's session in a folder of its own."""
    folder.mkdir()
    (folder / "session.py").write_text(FAILING.replace("MOST", str(most)))
    env = {**os.environ, "STALEROW_DATABASE": str(shared)}
    env.pop("GITHUB_TOKEN", None)
    done = subprocess.run([sys.executable, "session.py"], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ran, fails = done.stdout.split()[-2:]
    return int(ran), fails == "True"


def test_a_failure_that_one_machine_found_is_what_another_runs_first(tmp_path):
    shared = tmp_path / "shared"
    assert session(tmp_path / "one", shared, 200)[0] > 1
    assert session(tmp_path / "two", shared, 1)[1]
    assert not session(tmp_path / "three", "", 1)[1]


@pytest.mark.usefixtures("_keep_settings")
def test_a_redis_server_keeps_what_is_shared(monkeypatch):
    fakeredis = pytest.importorskip("fakeredis", reason="needs fakeredis")
    from hypothesis.extra.redis import RedisExampleDatabase

    server = fakeredis.FakeServer()
    monkeypatch.setattr("redis.Redis.from_url", lambda address: fakeredis.FakeRedis(server=server))
    monkeypatch.setenv("STALEROW_DATABASE", "redis://somewhere:6379")
    load_settings("fuzz").database.save(b"property", b"an example")
    assert set(RedisExampleDatabase(fakeredis.FakeRedis(server=server)).fetch(b"property")) == {b"an example"}


@pytest.mark.usefixtures("_keep_settings")
def test_a_database_of_no_known_kind_is_named(monkeypatch):
    monkeypatch.setenv("STALEROW_DATABASE", "mysql://somewhere")
    with pytest.raises(ValueError, match="STALEROW_DATABASE=mysql://somewhere: give a folder, or redis://HOST:PORT"):
        load_settings("nightly")
    assert load_settings("ci").database is None


def test_unknown_settings_say_which_there_are():
    with pytest.raises(ValueError, match="ci, fuzz, nightly"):
        load_settings("warp")


def test_the_plugin_and_the_assertion_import_neither_hypothesis_nor_torch():
    code = (
        "import sys, stalerow.simulator.testing.plugin, stalerow.simulator.testing.isolation as i\n"
        "from stalerow.simulator.schedule.generate import from_seed\n"
        "i.assert_isolated(from_seed(1), 'reference:req-idx')\n"
        "print([m for m in ('torch', 'triton', 'hypothesis') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
