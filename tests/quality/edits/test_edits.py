"""Edits of a release's files: each kind does what it says, every one listed has its place, and one is found.

How many schedules each of them needs is measured by `tests/bench/edits.py`.
"""

import os
import sys
from pathlib import Path

import pytest

from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.worker.environment import BASE, environment

sys.path.insert(0, str(Path(__file__).parent))
from release_edit import Edit, NoSuchPlace, edited
from release_edits import COPY, EDITS, MAMBA, POSTPROCESS

SOURCE = """\
class Table:
    def write(self, row, ids):
        start = self.used if row else 0  # é
        if row < 0:
            return
        if ids and start:
            self.stage(row, start, ids)
        self.table.stage(start, row)
        self.used += len(ids)


def launch(n):
    kernel[(n,)](n, 2)
    return n
"""


def edit(how, of, to="", nth=0, function="Table.write"):
    return Edit("a/b.py", function, how, of, to, nth)


@pytest.mark.parametrize(
    ("made", "before", "after"),
    [
        (edit("negate", "row", nth=1), "if row < 0:", "if (not (row < 0)):"),
        (edit("negate", "ids"), "if ids and start:", "if (not (ids and start)):"),
        (edit("drop", "stage", nth=1), "self.table.stage(start, row)", "pass"),
        (edit("swap", "stage", "0,1"), "self.stage(row, start, ids)", "self.stage(start, row, ids)"),
        (edit("offset", "start", "1"), "self.used if row else 0  # é", "(self.used if row else 0) + 1  # é"),
        (edit("offset", "used", "1"), "+= len(ids)", "+= (len(ids)) + 1"),
        (edit("value", "start", "0"), "self.used if row else 0", "0"),
        (edit("rename", "ids", "row"), "if ids and", "if row and"),
        (edit("rename", "used", "held"), "start = self.used if", "start = self.held if"),
        (edit("argument", "stage", "1=0"), "self.stage(row, start, ids)", "self.stage(row, 0, ids)"),
        (edit("drop", "kernel", function="launch"), "kernel[(n,)](n, 2)", "pass"),
        (edit("offset", "return", "1", function="launch"), "return n", "return (n) + 1"),
    ],
    ids=lambda value: value.name if isinstance(value, Edit) else "",
)
def test_an_edit_changes_its_place_and_nothing_else(made, before, after):
    assert SOURCE.count(before) == 1
    assert made.applied(SOURCE) == SOURCE.replace(before, after)


def test_a_place_that_is_not_there_is_named():
    with pytest.raises(NoSuchPlace, match=r"found 2 such places"):
        edit("drop", "stage", nth=2).applied(SOURCE)
    with pytest.raises(NoSuchPlace, match="there is no read"):
        edit("drop", "stage", function="Table.read").applied(SOURCE)


def test_only_the_edited_file_is_a_copy(tmp_path):
    package = tmp_path / "installed" / "vllm"
    (package / "a").mkdir(parents=True)
    (package / "other").mkdir()
    for name in ("__init__.py", "a/__init__.py", "a/c.py", "other/d.py"):
        (package / name).write_text(f"# {name}\n")
    (package / "a" / "b.py").write_text(SOURCE)
    made = edited(package, edit("value", "start", "0"), tmp_path / "edited") / "vllm"
    copies = {p.relative_to(made).as_posix() for p in made.rglob("*.py") if not p.is_symlink() and p.is_file()}
    assert "a/b.py" in copies
    assert (made / "a" / "c.py").is_symlink()
    assert (made / "other").is_symlink()
    assert "start = 0" in (made / "a" / "b.py").read_text()
    assert (package / "a" / "b.py").read_text() == SOURCE


def test_descriptions_are_many_and_each_is_one_of_its_own():
    assert len({e.name for e in EDITS}) == len(EDITS) >= 40


def installed() -> Path:
    python = os.environ.get("STALEROW_WORKER_PYTHON", "")
    try:
        made = environment(f"vllm=={BASE}", python)
    except UsageError as error:
        pytest.skip(str(error))
    (package,) = Path(made.python).parents[1].glob("lib/python*/site-packages/vllm")
    return package


def test_every_edit_has_its_place_in_the_release():
    package = installed()
    for each in EDITS:
        source = (package / each.file).read_text()
        assert each.applied(source) != source, each.name


def test_an_engine_that_fails_at_once_is_a_finding(tmp_path):
    """Its first run, which only warms the child, fails too."""
    made = edited(installed(), Edit(MAMBA, POSTPROCESS, "argument", COPY, "3=src_block_idx + 1"), tmp_path)
    subject = Subject(worker=str(made), python=os.environ.get("STALEROW_WORKER_PYTHON", ""))
    found = [
        v for seed in range(10) for v in subject.run(from_draw(Draw(seed=seed, runner="v2", faithful=True))).violations
    ]
    assert found
