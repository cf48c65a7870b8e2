"""A release's runner runs a padded one-token prompt as a plain row: a control tells its finding from the kernels'."""

from types import SimpleNamespace

import msgspec

from stalerow.kernels.sets import kernel_set
from stalerow.scenarios.loader import catalogue
from stalerow.simulator.campaign import compare
from stalerow.simulator.campaign.compare import Row, Setting, run_seeds
from stalerow.simulator.faults import resolve
from stalerow.simulator.faults.base import Wrapped
from stalerow.simulator.run.outcome import BY_THE_RUNNER, run
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject

ONE_TOKEN = catalogue()["padded-first-token"].schedule
CALLER = SimpleNamespace(
    zero_padding=True, binds_when="cache_init", seed_unit="mamba", ds_conv_with_drafts=True, temporal_alignment=1
)


class Served(Wrapped):
    """Align kernels that say, as a release's do, what their own runner does around them."""

    caller = CALLER


def released(name="req-idx"):
    kernels = kernel_set(f"reference:{name}")
    return kernels._replace(align=Served(kernels.align))


def test_the_runner_s_finding_is_told_as_the_runner_s():
    outcome = run(ONE_TOKEN, released())
    assert outcome.violations[0].kind == "wrong position"
    assert all(BY_THE_RUNNER in violation.explanation for violation in outcome.violations)
    assert outcome.by_kernels == ()


def test_the_project_s_own_runner_shows_none_of_it():
    assert run(ONE_TOKEN, kernel_set("reference:req-idx")).clean


def test_a_run_without_a_finding_needs_no_control():
    longer = tuple(msgspec.structs.replace(r, prompt_len=2) for r in ONE_TOKEN.requests)
    outcome = run(msgspec.structs.replace(ONE_TOKEN, requests=longer), released())
    assert outcome.clean
    assert outcome.control is None


def test_what_kernels_do_wrong_stays_theirs():
    """The same schedules blame kernels that look up the wrong row whether or not the runner has a finding beside it."""
    met = 0
    for seed in range(160):
        schedule = from_draw(Draw(seed=seed, pp=2, runner="v2", faithful=True))
        if not schedule.pipeline.drafts or all(r.prompt_len > 1 for r in schedule.requests):
            continue
        own = run(schedule, kernel_set("reference:batch-row"))
        theirs = run(schedule, released("batch-row"))
        assert [v.identity() for v in theirs.by_kernels] == [v.identity() for v in own.violations]
        assert not any(BY_THE_RUNNER in v.explanation for v in theirs.by_kernels)
        met += bool(own.violations)
        if met == 2:
            return
    raise AssertionError(f"{met} of 160 schedules with a padded prompt of one token are violated by their kernels")


def test_a_fault_that_decides_it_is_not_the_runner_s():
    outcome = resolve(("padded-first-token",)).run(ONE_TOKEN, released())
    assert outcome.control is None
    assert outcome.by_kernels == outcome.violations != ()


def test_compare_counts_the_runner_s_findings_beside_the_kernels(monkeypatch):
    monkeypatch.setattr(Subject, "load", lambda subject: released())
    monkeypatch.setattr(compare, "from_draw", lambda draw: ONE_TOKEN)
    setting = Setting(Subject(kernels="vllm==0.0.0"), Draw(0, pp=1, runner="v2"))
    row = Row.of(setting)
    for result in run_seeds(setting, range(2)):
        row.add(result)
    assert (row.schedules, row.violating, row.runner_only, row.first) == (2, 0, 2, None)
