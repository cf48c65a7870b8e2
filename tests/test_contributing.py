"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the sources: what they promise comes true."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from stalerow.simulator.schedule.generate import from_seed

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text()
PACKAGES = ("kernels", "simulator", "scenarios")
MOST_FILES = {"A fault": 1, "A release": 2, "A kernel set": 1, "A chooser": 1, "A kind of violation": 2}
"""Files that each recipe writes; a fault's scenario is written by a command."""


def recipe(title: str) -> list[tuple[str, str, str]]:
    """(file, language, block) in order of a section."""
    section = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    found, path = [], ""
    for named, language, block in re.findall(r"`([\w./-]+)`(?:, new)?:\n|```(\w+)\n(.*?)```", section, re.DOTALL):
        path = named or path
        if block and language != "sh":
            found.append((path, language, block))
    return found


def changed(text: str, diff: str) -> str:
    old, new = ("".join(f"{line[1:]}\n" for line in diff.splitlines() if line[0] in f" {sign}") for sign in "-+")
    assert text.count(old) == 1, f"the page's context is not in the file, or not once:\n{old}"
    return text.replace(old, new)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources in which all recipes have been followed."""
    folder = tmp_path_factory.mktemp("clone")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "stalerow" / name, ignore=shutil.ignore_patterns("__pycache__", "docs"))
    for title in MOST_FILES:
        for path, language, block in recipe(title):
            target = folder / "stalerow" / path if path.startswith(PACKAGES) else folder / path
            assert target.exists() == (language == "diff"), target
            target.write_text(changed(target.read_text(), block) if language == "diff" else block)
    return folder


def python(clone: Path, program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", program], cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("title", MOST_FILES)
def test_a_recipe_touches_as_few_files_as_it_says(title: str) -> None:
    assert len({path for path, _, _ in recipe(title)}) == MOST_FILES[title]


def test_the_copy_is_what_runs(clone: Path) -> None:
    assert python(clone, "import stalerow.simulator as s; print(s.__file__)").startswith(str(clone))


def test_a_fault_is_found_and_becomes_a_scenario(clone: Path) -> None:
    commands = re.search(r"## A fault.*?```sh\n(.*?)```", TEXT, re.DOTALL)
    assert commands
    fuzz, add, run = (line.split()[1:] for line in commands[1].splitlines())
    program = (
        f"import glob\nfrom stalerow.scenarios.program import main\nassert main({fuzz}) == 1\n"
        f"saved = glob.glob({add[2]!r})[:1]\n"
        f"assert main({add[:2]} + saved + {[*add[3:], '--folder', 'stalerow/scenarios']}) == 0\n"
        f"assert main({run}) == 0\n"
    )
    assert "1 of 1 as the reports say" in python(clone, program)


def test_a_release_is_known_and_seeds_keep_their_schedules(clone: Path) -> None:
    program = (
        "import msgspec\nfrom stalerow.kernels.external.vocabulary import LAST_RELEASE\n"
        "from stalerow.simulator.engine import profile\nfrom stalerow.simulator.schedule.generate import from_seed\n"
        "assert not profile(f'vllm=={LAST_RELEASE}').resumes_in_admission_order\n"
        "print(msgspec.json.encode([from_seed(seed) for seed in range(60)]).decode())"
    )
    now = msgspec.json.decode(python(clone, program))
    before = msgspec.json.decode(msgspec.json.encode([from_seed(seed) for seed in range(60)]))
    drew_it = [s for s in now if s["pipeline"].get("profile") == "0.35"]
    assert 0 < len(drew_it) < 40
    assert [a for a, b in zip(now, before, strict=True) if a != b] == drew_it


def test_a_kernel_set_of_ones_own_is_found_out(clone: Path) -> None:
    program = (
        "from stalerow.simulator.testing import Subject, from_seed\nsubject = Subject(kernels='my_kernels:made')\n"
        "print({v.launch for seed in range(8) for v in subject.run(from_seed(seed, runner='v2')).violations[:1]})"
    )
    assert "precopy" in python(clone, program)


def test_a_chooser_decides_and_travels_in_a_file(clone: Path) -> None:
    program = (
        "import msgspec\nfrom stalerow.simulator.errors import UsageError\n"
        "from stalerow.simulator.schedule.file import from_builtins, to_json\n"
        "from stalerow.simulator.testing import from_seed, kernel_set, run\n"
        "def ruled(first):\n"
        "    data = msgspec.json.decode(to_json(from_seed(3, pp=2)))\n"
        "    data['order'] = {'rule': {'kind': 'turns', 'first': first}}\n"
        "    return from_builtins(data, 'here')\n"
        "kernels = kernel_set('reference:req-idx')\n"
        "one, two = (run(ruled(first), kernels) for first in (0, 1))\n"
        "assert one.clean and two.clean and one.order != two.order, (one.violations, two.violations)\n"
        "try:\n    ruled(-1)\nexcept UsageError as error:\n    print(error)\n"
    )
    assert "here: order.rule.first is -1: give 0 or more" in python(clone, program)


def test_a_kind_of_violation_is_reported_and_explained(clone: Path) -> None:
    program = (
        "from stalerow.scenarios.program import main\n"
        "from stalerow.simulator.testing import from_seed, kernel_set, run\n"
        "kernels = kernel_set('reference:req-idx')\n"
        "outcomes = (run(from_seed(seed), kernels) for seed in range(60))\n"
        "print({v.kind for v in next(o for o in outcomes if not o.clean).violations})\n"
        "main(['explain', 'empty', 'pool'])"
    )
    out = python(clone, program)
    assert "{'empty pool'}" in out
    assert "After a step is scheduled no block is free" in out
