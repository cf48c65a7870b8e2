"""Kernel sets side by side: every run of a setting goes into its row, and a run that takes its process down too."""

import msgspec
import pytest

from stalerow.simulator.campaign.compare import First, Result, Row, Setting, _split, _taken, results, run_seeds
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.subject.subject import Subject

FAULTY = Setting(Subject(kernels="reference:batch-row"), Draw(0, pp=2, runner="v2"))
HEALTHY = FAULTY._replace(subject=Subject(kernels="reference:req-idx"))


def first(seed: int, kind: str = "torn copy", rank: int = 1) -> First:
    return First(FAULTY.at(seed), kind, rank, "precopy", False, "it is", FAULTY.command(seed))


def ran(seed: int, found: First | None = None, **given) -> Result:
    return Result(FAULTY, seed, "ab", {"prefix hit": 2}, found, **given)


def test_a_row_adds_up_its_runs_and_keeps_the_lowest_seed():
    row = Row.of(FAULTY)
    for result in (ran(4, first(4)), ran(5), ran(2, first(2, "leak", 0)), ran(3, first(3))):
        row.add(result)
    assert (row.kernels, row.pp, row.runner, row.engine) == ("reference:batch-row", 2, "v2", "own")
    assert (row.schedules, row.violating) == (4, 3)
    assert row.kinds == {"torn copy": 2, "leak": 1}
    assert row.ranks == {"1": 2, "0": 1}
    assert row.marks == {"prefix hit": 8}
    assert row.first == first(2, "leak", 0)


def test_what_was_not_run_is_counted_beside_the_schedules():
    row = Row.of(FAULTY)
    row.add(ran(1, refused=True))
    row.add(ran(2, skipped=True))
    assert (row.schedules, row.refused, row.skipped, row.marks) == (0, 1, 1, {})


def test_a_setting_names_its_engine_and_the_command_for_a_seed():
    assert FAULTY.at(9) == msgspec.structs.replace(FAULTY.draw, seed=9)
    assert FAULTY.command(9) == "stalerow run 9 --kernels reference:batch-row --pp 2 --runner v2"
    released = FAULTY._replace(draw=Draw(0, pp=2, runner="v2", profile="0.34"), python="/a b/python")
    assert (FAULTY.engine, released.engine) == ("own", "vllm 0.34")
    assert released.command(9).endswith(" --engine vllm --python '/a b/python'")


def test_a_seed_is_run_as_it_would_be_by_itself():
    (faulty,) = run_seeds(FAULTY, (558,))
    alone = FAULTY.subject.run(from_seed(558, 2, "v2"))
    assert (faulty.digest, faulty.marks) == (alone.digest, alone.marks)
    assert faulty.first is not None
    assert faulty.first.kind == alone.violations[0].kind
    assert faulty.first.command == FAULTY.command(558)
    (healthy,) = results([HEALTHY], (558,))
    assert healthy.first is None


def test_a_schedule_that_lacks_what_a_fault_needs_is_skipped():
    subject = Subject(kernels="reference:req-idx", faults=("odd-size",))
    setting = HEALTHY._replace(subject=subject)
    assert subject.lacking(from_seed(7, 2, "v2"))
    (result,) = run_seeds(setting, (7,))
    assert (result.skipped, result.first, result.digest) == (True, None, "")


@pytest.mark.parametrize(
    ("ended", "kind", "said"),
    [
        (
            {"died": "killed by SIGSEGV"},
            "crash",
            "seed 3 with reference:batch-row killed its process (killed by SIGSEGV)",
        ),
        ({"hung": "did not return within 3 s"}, "hang", "seed 3 with reference:batch-row did not return within 3 s"),
    ],
)
def test_a_run_that_takes_its_process_down_is_a_finding(ended, kind, said):
    (lost,) = _taken(Done(1, (FAULTY, (3,)), **ended))
    assert lost.first is not None
    assert (lost.first.kind, lost.first.launch, lost.first.explanation) == (kind, "process", f"{said}, twice")
    assert lost.first.draw.seed == 3


def test_what_a_task_raises_is_raised_and_what_it_returns_is_taken():
    with pytest.raises(UsageError, match="no such kernels"):
        _taken(Done(1, (FAULTY, (3,)), error=UsageError("no such kernels")))
    assert _taken(Done(1, (FAULTY, (3, 4)), value=[ran(3), ran(4)])) == [ran(3), ran(4)]


@pytest.mark.parametrize(("kernels", "tasks"), [("reference:req-idx", [[0, 1, 2]]), ("req-idx", [[0], [1], [2]])])
def test_slow_kernels_are_a_task_for_each_seed(kernels, tasks):
    setting = FAULTY._replace(subject=Subject(kernels=kernels))
    assert [list(part) for part in _split(setting, [0, 1, 2])] == tasks
