"""A draw makes its schedule, says how to make it again, and names files."""

import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalerow.simulator.commands.options import add_draw, draw_of, number
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import MAX_PP, SEEDS, Draw
from stalerow.simulator.schedule.faithful import is_faithful
from stalerow.simulator.schedule.file import from_builtins, load, to_json
from stalerow.simulator.schedule.generate import from_draw, from_seed, genuine
from stalerow.simulator.subject.subject import Subject

DRAWS = st.builds(
    Draw,
    st.integers(0, SEEDS - 1),
    pp=st.none() | st.integers(1, MAX_PP),
    runner=st.sampled_from([None, "v1", "v2"]),
    faithful=st.booleans(),
    family=st.none() | st.integers(0, SEEDS - 1),
    profile=st.sampled_from([None, "0.32", "0.33"]),
)
SUBJECTS = st.sampled_from(
    [Subject(), Subject(kernels="/with blank/mamba_utils.py", faults=("it's.py:f",)), Subject(kernels="vllm==0.33.0")]
)


def parsed(command: str) -> tuple[Draw, list[str]]:
    """What the command line makes of a printed command: its draw, and what it names to run."""
    import argparse

    program, verb, *arguments = shlex.split(command)
    assert (program, verb) == ("stalerow", "replay")
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=number)
    parser.add_argument("--kernels")
    parser.add_argument("--fault", action="append", default=[])
    add_draw(parser)
    args = parser.parse_args(arguments)
    return draw_of(args, args.seed, Subject(kernels=args.kernels)), [args.kernels, *args.fault]


@given(DRAWS, SUBJECTS)
def test_its_command_says_all_of_it_whatever_the_kernels(draw: Draw, subject: Subject) -> None:
    assert parsed(draw.command(subject)) == (draw, [subject.kernels, *subject.faults])


@given(DRAWS, DRAWS)
def test_names_are_equal_for_equal_draws_only(one: Draw, other: Draw) -> None:
    assert (one.name == other.name) == (one == other)


@given(DRAWS)
def test_it_reads_back_from_its_schedules_file(draw: Draw) -> None:
    schedule = msgspec.structs.replace(from_seed(3), draw=draw)
    assert from_builtins(msgspec.json.decode(to_json(schedule)), "it") == schedule


@pytest.mark.parametrize("seed", range(12))
def test_it_does_what_it_says(seed: int) -> None:
    plain = from_draw(Draw(seed))
    assert plain == from_seed(seed)
    assert genuine(plain)
    assert from_draw(Draw(seed, pp=4)).pipeline.pp == 4
    assert from_draw(Draw(seed, pp=4)).requests == plain.requests
    assert from_draw(Draw(seed, runner="v1")).pipeline.runner == "v1"
    assert from_draw(Draw(seed, profile="0.33")).pipeline.profile == "0.33"
    assert not is_faithful(from_draw(Draw(seed, faithful=True)))
    assert from_draw(Draw(seed, family=1)).layout.groups == from_draw(Draw(seed + 1, family=1)).layout.groups


def test_a_schedule_that_was_edited_is_not_its_draws_any_more() -> None:
    schedule = from_seed(6)
    limits = msgspec.structs.replace(schedule.limits, max_num_seqs=1)
    assert not genuine(msgspec.structs.replace(schedule, limits=limits))


@pytest.mark.parametrize(
    "draw",
    [Draw(6), Draw(6, family=2), Draw(6, pp=4, runner="v1"), Draw(6, faithful=True), Draw(9, runner="v1", family=3)],
    ids=str,
)
def test_format_1_gives_the_same_schedule_and_a_draw_that_makes_it(draw: Draw, tmp_path: Any) -> None:
    schedule = from_draw(draw)
    old = msgspec.to_builtins(schedule) | {"format": 1, "seed": draw.seed}
    del old["draw"]
    if draw.family is not None:
        old["family"] = draw.family
    (tmp_path / "old.json").write_bytes(msgspec.json.encode(old))
    read = load(tmp_path / "old.json")
    assert genuine(read)
    assert msgspec.structs.replace(read, draw=draw) == schedule


def test_format_1_of_an_edited_schedule_has_no_draw(tmp_path: Any) -> None:
    old = msgspec.to_builtins(from_seed(6)) | {"format": 1, "seed": 6}
    del old["draw"]
    old["limits"]["max_num_seqs"] += 1
    (tmp_path / "old.json").write_bytes(msgspec.json.encode(old))
    assert load(tmp_path / "old.json").draw is None


@pytest.mark.parametrize("draw", [{"seed": -1}, {"seed": SEEDS}, {"seed": 1, "pp": 10**6}, {"seed": 1, "mood": 2}])
def test_a_draw_out_of_range_is_refused(draw: dict[str, int]) -> None:
    data = msgspec.to_builtins(from_seed(3)) | {"draw": draw}
    with pytest.raises(UsageError, match=r"draw"):
        from_builtins(data, "it")
