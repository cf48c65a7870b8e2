"""The catalogue: every public bug has a scenario that shows what its report says, and nothing without its fault."""

from __future__ import annotations

import re

import pytest

from stalerow.scenarios import Scenario, catalogue
from stalerow.simulator.faults import builtin_faults

BUGS = [
    "stale-row",
    "dead-binding",
    "seed-units",
    "wrong-grid-split",
    "lookahead-page",
    "null-state",
    "overlap-shift",
    "accept-reset-race",
    "page-stride-copy",
    "address-width",
    "stale-accept",
    "resumed-column",
    "unzeroed-block",
    "no-generation-check",
    "rank-divergence",
    "early-free",
    "optimistic-free",
    "staging-depth",
    "dummy-run",
    "dirty-rows",
    "zero-accept",
    "late-reader",
    "padded-first-token",
    "wild-leak",
    "hash-before-write",
    "foreign-hit",
    "preempted-output",
    "padded-indices",
    "uncommitted-accept",
    "dropped-tracking",
    "broadcast-width",
    "padded-first-step",
    "threshold-assert",
]

UNREPORTED = {"broadcast-width", "threshold-assert"}
"""Seen in the releases themselves; nobody has reported them."""

SCENARIOS = list(catalogue().values())
MODELLED = [s for s in SCENARIOS if s.status == "modelled"]


def _names(scenarios: list[Scenario]) -> list[str]:
    return [s.name for s in scenarios]


@pytest.mark.parametrize("scenario", MODELLED, ids=_names(MODELLED))
def test_the_first_violation_is_the_reported_one_and_without_the_fault_there_is_none(scenario: Scenario) -> None:
    result, expect = scenario.run(), scenario.expect
    first, healthy = result.first, result.healthy
    assert first is not None
    assert expect is not None
    assert healthy is not None
    assert first.kind in expect.kinds
    assert first.launch == expect.launch
    assert re.search(expect.says, first.explanation)
    assert [fault.name for fault in scenario.resolve().faults if not fault.shows(first)] == []
    assert healthy.violations == ()
    assert (result.found, result.clean, result.ok) == (True, True, True)


def test_every_public_bug_is_modelled() -> None:
    assert sorted({s.id for s in MODELLED}) == sorted(BUGS)


def test_every_fault_has_a_scenario_of_its_own() -> None:
    assert {*builtin_faults()} == {s.faults[0] for s in MODELLED if len(s.faults) == 1}


@pytest.mark.parametrize("scenario", MODELLED, ids=_names(MODELLED))
def test_plain_fuzzing_finds_each_from_every_starting_seed(scenario: Scenario) -> None:
    measured = scenario.measured
    assert measured is not None
    assert measured.starts >= 20
    assert measured.found == measured.starts
    assert 1 <= measured.median <= min(measured.worst, 2000)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=_names(SCENARIOS))
def test_what_is_told_about_a_scenario_is_complete(scenario: Scenario) -> None:
    assert scenario.id in BUGS
    assert (scenario.title.strip(), scenario.title.count("\n")) == (scenario.title, 0)
    assert len(scenario.title.split()) >= 3
    assert len(scenario.text.split()) > 20
    assert bool(scenario.reports) == (scenario.id not in UNREPORTED)
    address = re.compile(r"https://github.com/[\w.-]+/[\w.-]+/issues/\d+")
    assert [link for link in scenario.links if not address.fullmatch(link)] == []
    assert bool(scenario.links) == (scenario.id not in {"dirty-rows", *UNREPORTED})


def test_one_schedule_of_the_catalogue_has_the_sizes_of_its_report() -> None:
    schedule = catalogue()["seed-units-100096"].schedule
    assert schedule is not None
    sizes = [g.block_size for g in schedule.layout.groups]
    assert sizes == [2176, 128]
    assert (schedule.requests[1].prompt_len - 1) // 128 * 128 == 100096
