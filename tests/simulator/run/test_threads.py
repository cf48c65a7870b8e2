"""The programs of a run's launches interleaved: clean sets stay clean, races are found, named, shrunk and replayed."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import msgspec
import pytest

from stalerow.kernels.external import DownloadError
from stalerow.kernels.external.wheel import fetch
from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.simulator.campaign.candidates import signature
from stalerow.simulator.campaign.shrink import shrink
from stalerow.simulator.draw.picture import picture
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.released import RefusedLayout
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.choosers.lagging import DrawnLags
from stalerow.simulator.schedule.choosers.seeded import SeededChooser
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.file import load, to_json
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.schedule.order import Interleaving, Order, ThreadLag
from stalerow.simulator.schedule.values import validate
from stalerow.simulator.subject.subject import Subject

sys.path.insert(0, str(Path(__file__).parent))


def compiled(name: str = "req-idx") -> KernelSet:
    kernels = kernel_set(name, "cpu")
    if kernels.backend.name != "triton-cpu":
        pytest.skip("kernels are interpreted in this process; only compiled ones are interleaved")
    return kernels


def racy(name: str) -> Subject:
    compiled()
    return Subject(kernels=f"racy_kernels:{name}_set", device="cpu")


@pytest.mark.parametrize("seed", range(3))
def test_a_clean_set_is_clean_in_drawn_orders_and_ends_with_the_same_bytes(seed: int) -> None:
    schedule = from_draw(Draw(seed, interleave=True))
    in_order = msgspec.structs.replace(schedule, order=msgspec.structs.replace(schedule.order, threads=msgspec.UNSET))
    outcome = run(schedule, compiled())
    assert outcome.clean
    assert outcome.digest == run(in_order, compiled()).digest


def test_lags_are_drawn_the_same_for_the_same_launch_and_differ_between_seeds() -> None:
    def drawn(seed: int) -> list[int | None]:
        lags = DrawnLags(SeededChooser(seed))
        return [lags.next(program, warp, access) for program in range(3) for warp in range(2) for access in range(4)]

    assert drawn(5) == drawn(5)
    assert len({tuple(drawn(seed)) for seed in range(20)}) > 10


def test_without_lags_the_racy_set_is_clean() -> None:
    subject = racy("order_matters")
    schedule = from_draw(Draw(3, interleave=True))
    in_order = msgspec.structs.replace(schedule, order=Order(lags=()))
    assert subject.run(in_order).clean


def test_a_race_is_found_named_drawn_shrunk_and_replayed(tmp_path: Path) -> None:
    subject = racy("order_matters")
    schedule = next(s for s in (from_draw(Draw(i, interleave=True)) for i in range(20)) if not subject.run(s).clean)
    first = subject.run(schedule).violations[0]
    assert not isinstance(first.race, msgspec.UnsetType)
    assert (first.race.kernel, first.race.first.program, first.race.second.program) == (
        "order_matters",
        (1, 0, 0),
        (0, 0, 0),
    )
    assert "warp 0 loads 4 bytes at racy_kernels.py:" in first.explanation

    shrunk = shrink(subject, schedule, signature(first), budget=40).schedule
    assert shrunk.order.threads is msgspec.UNSET
    (lag,) = shrunk.order.lags
    assert (lag.kernel, lag.program, lag.warp, lag.access) == ("order_matters", 0, 0, 0)
    (tmp_path / "shrunk.json").write_bytes(to_json(shrunk))
    again = subject.run(load(tmp_path / "shrunk.json"))
    assert again.violations[0].race == first.race
    without = msgspec.structs.replace(shrunk, order=Order(lags=()))
    assert subject.run(without).clean, "the lag that is left is needed"

    drawn = picture(shrunk, subject.run, str(subject))
    assert "race in order_matters over memory 0 bytes into flag (4 bytes)" in drawn
    columns = drawn[drawn.index("race in") :].splitlines()
    assert columns[1].split("  ")[0] == "program (1, 0, 0) warp 0"
    assert columns[2].startswith("loads 4 bytes")
    assert columns[3].startswith("   ")
    assert "stores 4 bytes" in columns[3]


def test_writes_that_race_without_harm_are_a_finding_of_their_own() -> None:
    outcome = racy("last_one_stays").run(from_draw(Draw(3, interleave=True)))
    first = outcome.violations[0]
    assert (first.kind, first.launch) == ("racing writes", "precopy")
    assert "program (0, 0, 0) warp 0 stores 4 bytes" in first.explanation
    assert "program (1, 0, 0) warp 0 stores 4 bytes" in first.explanation


def test_kernels_that_cannot_be_interleaved_are_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError, match=r"reference:req-idx does not run compiled .* leave --interleave out"):
        run(from_draw(Draw(3, interleave=True)), kernel_set("reference:req-idx"))


def test_a_draw_says_that_it_interleaves_in_its_command_and_its_name() -> None:
    draw = Draw(3, interleave=True)
    assert " --interleave" in draw.command(Subject())
    assert draw.name != Draw(3).name
    assert from_draw(draw).order.threads == Interleaving(seed=3)
    assert msgspec.json.decode(to_json(from_draw(draw)), type=dict)["order"]["threads"] == {"seed": 3}


def test_lags_of_ranks_that_do_not_exist_are_refused() -> None:
    schedule = from_draw(Draw(3, pp=2))
    order = Order(lags=(ThreadLag(rank=2, step=1, kernel="k", program=0),))
    with pytest.raises(UsageError, match=r"order\.lags has .*rank=2.*ranks count from 0 to pp - 1"):
        validate(msgspec.structs.replace(schedule, order=order))
    both = Order(lags=(), threads=Interleaving(seed=1))
    with pytest.raises(UsageError, match="lags beside threads"):
        validate(msgspec.structs.replace(schedule, order=both))


def released(version: str) -> Subject:
    compiled()
    if not os.environ.get("STALEROW_NETWORK_TESTS"):
        pytest.skip("STALEROW_NETWORK_TESTS is not set, so no release is downloaded")
    try:
        fetch("vllm", version)
    except DownloadError as error:
        pytest.skip(str(error))
    return Subject(kernels=f"vllm=={version}", device="cpu")


def raced(subject: Subject, seeds: int) -> list[Violation]:
    """The first violation of every schedule of one rank that has one; layouts that the release refuses are left out."""
    found = []
    for seed in range(seeds):
        with contextlib.suppress(RefusedLayout):
            found += subject.run(from_draw(Draw(seed, pp=1, faithful=True, interleave=True))).violations[:1]
    return found


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.25.0", "0.26.0", "0.27.1"])
def test_a_count_that_is_reset_while_siblings_read_it_is_found_in_the_release(version: str) -> None:
    first = raced(released(version), 12)[0]
    assert (first.kind, first.launch) == ("torn copy", "postprocess")
    race = first.race
    assert not isinstance(race, msgspec.UnsetType)
    assert race.first.program[1] != race.second.program[1], "programs of two states of one row"
    assert {race.first.verb, race.second.verb} == {"load", "store"}
    assert "num_accepted" in race.over


@pytest.mark.network
def test_a_window_that_tears_in_its_own_block_is_found_in_the_release() -> None:
    found = raced(released("0.28.0"), 40)
    assert {(v.kind, v.launch) for v in found} == {("torn copy", "postprocess")}
    race = found[0].race
    assert not isinstance(race, msgspec.UnsetType)
    assert (race.first.program, race.block) == (race.second.program, found[0].target_block)
    assert race.first.warp != race.second.warp


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.29.0", "0.30.0", "0.32.0", "0.34.0"])
def test_releases_without_these_races_are_clean_in_the_same_orders(version: str) -> None:
    assert raced(released(version), 24) == []


def test_a_campaign_runs_the_kernels_themselves_and_not_their_twin() -> None:
    assert Subject().twin() is not None
    assert Subject().twin(interleaved=True) is None
