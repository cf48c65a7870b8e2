"""Our ranks against an engine's own worker: what is compared, and that a difference is named and made small."""

import os

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.campaign.candidates import signature
from stalerow.simulator.campaign.shrink import shrink
from stalerow.simulator.commands.cli import main
from stalerow.simulator.errors import UsageError
from stalerow.simulator.faults import resolve
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.compared import Compared
from stalerow.simulator.worker import agreement
from stalerow.simulator.worker.agreement import (
    BY_GROUP,
    BY_ROW,
    KERNELS,
    ReleasedTails,
    Watching,
    as_compared,
    compare,
)
from stalerow.simulator.worker.environment import environment

RELEASES = ("0.32.0", "0.33.0", "0.34.0")


def schedule(seed: int):
    return from_draw(Draw(seed=seed, runner="v2", faithful=True))


def held(made, **options):
    watching = Watching()
    run(made, kernel_set(KERNELS), observer=watching, **options)
    return watching.steps


def worker(release: str) -> tuple[str, str]:
    python = os.environ.get("STALEROW_WORKER_PYTHON", "")
    try:
        environment(f"vllm=={release}", python)
    except UsageError as error:
        pytest.skip(str(error))
    return f"vllm=={release}", python


def test_two_runs_of_our_own_ranks_agree_on_every_value():
    steps = held(schedule(3))
    values, difference = compare(steps, held(schedule(3)))
    assert difference is None
    assert values > 15 * len(steps) > 500


@pytest.mark.parametrize("what", [*BY_ROW, *BY_GROUP, "requests", "memory"])
def test_one_changed_value_is_named_with_its_step_and_rank(what):
    steps = held(schedule(3))
    at = len(steps) // 2
    value = getattr(steps[at], what)
    first = value[0] if isinstance(value, tuple) else ""
    other = (not first,) if isinstance(first, bool) else (-7,) if isinstance(first, int) else (("?",),)
    changed = "?" if what == "memory" else (*other, *value[1:])
    theirs = [*steps[:at], msgspec.structs.replace(steps[at], **{what: changed}), *steps[at + 1 :]]
    _, difference = compare(steps, theirs)
    assert (difference.step, difference.rank) == (steps[at].step, steps[at].rank)
    assert difference.what == ("rows" if what == "requests" else what)


def test_a_forward_that_only_one_side_has_is_a_difference():
    steps = held(schedule(3))
    _, difference = compare(steps, steps[:-1])
    last = max(steps, key=lambda s: (s.step, s.rank))
    assert str(difference).endswith("our ranks have a forward, the worker has none") == (steps[-1] == last)
    assert difference is not None


@pytest.mark.parametrize("fault", ["stale-accept", "rank-divergence", "no-generation-check"])
def test_ranks_with_a_fault_do_not_agree_with_ranks_without(fault):
    faults = resolve((fault,))
    for seed in range(60):
        made = schedule(seed)
        watching = Watching()
        faults.run(made, kernel_set(KERNELS), observer=watching)
        if compare(held(made), watching.steps)[1] is not None:
            return
    raise AssertionError(f"{fault} changed nothing that is compared in 60 schedules")


@pytest.mark.parametrize("release", RELEASES)
def test_our_ranks_hold_what_the_release_s_own_worker_holds(release):
    name, python = worker(release)
    compared = 0
    for seed in (2, 3, 7, 31):
        found = agreement.agreement(name, python, schedule(seed))
        assert str(found.difference) == "None"
        assert not found.found
        compared += found.values
    assert compared > 1000


def test_a_difference_is_made_small(monkeypatch):
    """Our ranks seed another accepted count: what differs first is shrunk to one request."""
    name, python = worker("0.32.0")

    class Seeded(ReleasedTails):
        def seed_column(self, new, block_size):
            return super().seed_column(new, block_size) + (new.num_computed_tokens > 0)

    monkeypatch.setattr(agreement, "ReleasedTails", Seeded)
    subject = Compared(worker=name, python=python)
    failing = next(s for s in map(schedule, range(40)) if subject.run(s).violations)
    (first,) = subject.run(failing).violations
    small = shrink(subject, failing, signature(first), budget=60)
    (again,) = subject.run(small.schedule).violations
    assert signature(again) == signature(first)
    assert len(small.schedule.requests) <= min(2, len(failing.requests))


def test_the_command_compares_and_says_how_much(capsys):
    name, python = worker("0.32.0")
    assert main(["conform", "--worker", name, "--python", python or "", "--seeds", "3:5"]) == 0
    assert "2 runs of 0.32.0" in capsys.readouterr().out


def test_a_release_whose_rules_nobody_knows_is_refused():
    name, python = worker("0.30.0")
    with pytest.raises(UsageError, match=r"vllm==0\.30\.0 cannot be compared with our ranks"):
        as_compared(name, python, schedule(3))


def test_rules_that_the_worker_brings_cannot_be_asked_for(capsys):
    assert main(["conform", "--worker", "vllm==0.32.0", "--profile", "0.33"]) == 2
    assert "leave out --live and --profile" in capsys.readouterr().err
