"""A handful of mutants in the suite; the whole list is a command (`score.py`), whose table is in RESULTS.md."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

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
HANDFUL = (
    "kernels/align/copy.py: begin = source",
    "kernels/align/postprocess.py: target = aligned",
    "kernels/own/tables.py: nb = counts",
    "simulator/rank/v2.py: self.computed[slot]",
    "simulator/engine/policies.py: return attention",
)


def test_every_mutant_has_its_place() -> None:
    for mutant in score.MUTANTS:
        text = (score.ROOT / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.name
        assert mutant.new != mutant.old


def test_there_are_enough_and_none_twice() -> None:
    names = [m.name for m in score.MUTANTS]
    assert len(names) >= 60
    assert len({*names}) == len(names)


@pytest.mark.parametrize("start", HANDFUL)
def test_a_mutant_is_caught(start: str) -> None:
    (mutant,) = (m for m in score.MUTANTS if m.name.startswith(start))
    (verdict,) = score.score([mutant], seeds=60, jobs=1)
    assert verdict.caught, verdict.how


def test_the_package_itself_is_clean() -> None:
    (verdict,) = score.score([None], seeds=20, jobs=1)
    assert verdict.how == "survived 20"


def test_the_table_says_at_least_95_percent_and_explains_every_survivor() -> None:
    text = (HERE / "RESULTS.md").read_text(encoding="utf-8")
    match = re.search(r"^(\d+) of (\d+) mutants caught", text, re.MULTILINE)
    assert match
    caught, total = map(int, match.groups())
    assert total >= 60
    assert caught / total >= 0.95
    assert "**not explained**" not in text
