"""A handful of mutants in the suite; the whole list is a command (`score.py`), whose table is in RESULTS.md."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def _module(name: str) -> ModuleType:
    known = f"stalerow_mutants_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


score = _module("score")
HANDFUL = {
    "kernels/align/copy.py: begin = source": "precopy|postprocess",
    "kernels/align/postprocess.py: target = aligned": "postprocess",
    "kernels/own/tables.py: nb = counts": "gather",
    "simulator/rank/v2.py: self.computed[slot]": "forward",
    "simulator/engine/policies.py: return attention": "forward",
}
"""Mutants, and where their trial sees them first."""


def _named(start: str) -> Any:
    (mutant,) = (m for m in score.MUTANTS if m.name.startswith(start))
    return mutant


def test_every_mutant_has_its_place_and_tests_that_know_it() -> None:
    for mutant in score.MUTANTS:
        text = (score.ROOT / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.name
        assert mutant.new != mutant.old
        assert mutant.tests
        assert [file for file in mutant.tests if not (score.ROOT / file).is_file()] == []


def test_there_are_enough_of_each_part_and_none_twice() -> None:
    names = [m.name for m in score.MUTANTS]
    assert len({*names}) == len(names)
    trials = Counter(m.trial for m in score.MUTANTS)
    assert trials["healthy"] >= 60
    assert trials["faults"] + trials["triton"] + trials["packs"] >= 60


@pytest.mark.parametrize(("start", "where"), HANDFUL.items(), ids=HANDFUL)
def test_a_mutant_is_caught_by_its_trial(start: str, where: str) -> None:
    (verdict,) = score.score([_named(start)], seeds=60, jobs=1)
    assert verdict.caught
    assert re.fullmatch(rf"caught \d+ [a-z ]+ at ({where})", verdict.how)


def test_tests_that_know_a_file_are_asked_before_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they catch never comes to its trial, and what they let pass does."""
    file = "simulator/rank/ring.py"
    monkeypatch.setitem(sys.modules["killers"].KILLERS, file, ("tests/simulator/rank/test_ring.py",))
    caught, name = _named(f"{file}: deque"), "class DeferredRing:"
    harmless = score.UNCHANGED._replace(file=file, old=name, new=name)
    first, second = score.score([caught, harmless], seeds=2, jobs=1, tests_first=True)
    assert (first.caught, first.how.partition("::")[0]) == (True, "caught test_ring.py")
    assert (second.caught, second.how) == (False, "survived 2")


def test_the_package_itself_is_clean() -> None:
    (verdict,) = score.score([None], seeds=20, jobs=1)
    assert verdict.how == "survived 20"


def test_the_table_counts_its_own_rows_and_explains_every_survivor() -> None:
    text = (HERE / "RESULTS.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| \S+\.py \| .* \| (yes|no) \| (.*) \| [\d-]+ \|$", text, re.MULTILINE)
    (counted,) = re.findall(r"^(\d+) of (\d+) mutants caught", text, re.MULTILINE)
    caught = sum(verdict == "yes" for verdict, _ in told)
    assert tuple(map(int, counted)) == (caught, len(told))
    assert caught >= 0.95 * len(told)
    assert {how for verdict, how in told if verdict == "no"} <= {m.survives for m in score.MUTANTS if m.survives}
