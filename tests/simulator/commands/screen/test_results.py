"""A comparison as a table: a row for each setting, columns only where they say something, then how to see it again."""

import re

import pytest

from stalerow.simulator.campaign.compare import First, Row, Setting
from stalerow.simulator.commands.screen.results import PLAIN_WIDTH, console, print_comparison
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

FAULTY = Setting(Subject(kernels="reference:batch-row"), Draw(0, pp=2, runner="v2"))
HEALTHY = FAULTY._replace(subject=Subject(kernels="reference:req-idx"))


def row(setting: Setting = HEALTHY, **given) -> Row:
    made = Row.of(setting)
    for name, value in ({"schedules": 8} | given).items():
        setattr(made, name, value)
    return made


def first(seed: int, launch: str = "postprocess") -> First:
    return First(FAULTY.at(seed), "cross-request copy", 0, launch, True, "r0 got r1's", FAULTY.command(seed))


def shown(capsys, *rows: Row, settings=None) -> str:
    print_comparison(rows, settings or [HEALTHY] * len(rows))
    return capsys.readouterr().out


def test_clean_rows_say_so(capsys):
    out = shown(capsys, row(), row(FAULTY))
    header = " ".join(out.splitlines()[1].split())
    assert header == "kernels runner PP schedules violating first violation of each, by kind"
    assert re.search(r"reference:req-idx +v2 +2 +8 +0 +-", out)
    assert out.rstrip().endswith("no state crossed requests")


def test_where_nothing_ran_nothing_is_said_to_be_clean(capsys):
    assert "nothing was run" in shown(capsys, row(schedules=0, skipped=8))


@pytest.mark.parametrize(("given", "column"), [({"refused": 3}, "refused"), ({"engine": "vllm 0.34"}, "engine")])
def test_a_column_is_there_where_it_says_something(capsys, given, column):
    assert column not in shown(capsys, row())
    out = shown(capsys, row(**given))
    assert column in out
    assert str(next(iter(given.values()))) in out


def test_kinds_are_listed_by_how_many_there_are_and_the_first_of_all_is_drawn(capsys):
    many = row(FAULTY, violating=3, kinds={"leak": 1, "cross-request copy": 2}, first=first(558))
    later = row(FAULTY, violating=1, kinds={"leak": 1}, first=first(7))
    wide = FAULTY._replace(draw=Draw(0, pp=4, runner="v2"))
    out = shown(capsys, many, later, settings=[FAULTY, wide])
    assert "cross-request copy 2, leak 1" in out
    assert "cross-request copy" in out.partition("leak 1")[2]
    assert out.rstrip().splitlines()[-1] == f"run it again, event by event: {FAULTY.command(558)}"


def test_what_took_its_process_down_is_told_and_not_drawn(capsys):
    lost = row(FAULTY, violating=1, kinds={"crash": 1}, first=first(3, launch="process"))
    out = shown(capsys, lost, settings=[FAULTY])
    assert "seed 3: r0 got r1's" in out
    assert out.rstrip().endswith(f"run it again: {FAULTY.command(3)}")
    assert "event by event" not in out


def test_what_the_releases_runner_alone_failed_is_counted(capsys):
    assert "more schedule failed" not in shown(capsys, row())
    assert "1 more schedule failed by the release's runner alone" in shown(capsys, row(runner_only=1))


def test_output_that_is_no_terminal_has_a_fixed_width():
    assert console().width == PLAIN_WIDTH
