"""The console blocks of the README and of the pages it links are run, and what they print is what they say.

A line of three dots stands for any lines. Durations, rates and the counts that depend on them are not compared.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "simulator/docs").glob("*.md"))]
ANY_NUMBER = re.compile(r"\d+(\.\d+)?( s\b|s\b| schedules/s)")


def sessions() -> list[tuple[str, list[str]]]:
    """(command, expected lines) of every console block, in order: the README's first."""
    found: list[tuple[str, list[str]]] = []
    blocks = [b for page in PAGES for b in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)]
    for block in blocks:
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line.rstrip())
    return found


def normal(line: str) -> str:
    return ANY_NUMBER.sub("#", line.rstrip())


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether `printed` is `expected`, with any lines in place of '...'."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(matches(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and normal(expected[0]) == normal(printed[0]) and matches(expected[1:], printed[1:])


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all blocks, since later ones replay what earlier ones saved; it has the recorded runs."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


def test_the_blocks_do_what_the_pages_say(workplace: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    wrong = []
    for command, expected in sessions():
        done = subprocess.run(
            shlex.split(command),
            cwd=workplace,
            env={**os.environ, "PATH": path, "COLUMNS": "110", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
        )
        printed = done.stdout.splitlines()
        while printed and not printed[-1].strip():
            printed.pop()
        while expected and not expected[-1].strip():
            expected.pop()
        if not matches(expected, printed) or done.returncode not in (0, 1):
            wrong.append(f"$ {command}\n{done.stdout}\n{done.stderr}\nexit code {done.returncode}")
    assert not wrong, "\n\n".join(wrong)


def test_there_is_something_to_run() -> None:
    assert len(sessions()) >= 4


def test_every_subcommand_is_mentioned() -> None:
    from stalerow.scenarios.program import COMMANDS

    text = "".join(page.read_text() for page in PAGES)
    assert [name for name in COMMANDS if f"stalerow {name}" not in text] == []


def test_links_lead_somewhere() -> None:
    broken = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_page_is_linked_from_the_readme() -> None:
    assert [page.name for page in PAGES[1:] if f"simulator/docs/{page.name}" not in README] == []


def test_the_install_commands_are_the_ones_that_ci_uses() -> None:
    assert "-c .ci/constraints.txt" in README
    assert (ROOT / ".ci/constraints.txt").exists()
    assert "-c .ci/constraints.txt" in (ROOT / ".ci/run").read_text()


def test_every_picture_and_page_that_is_linked_is_there() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links {link}"


def python_blocks(page: Path) -> list[tuple[str, str]]:
    """(program, what it prints) of every Python block that is followed by a text block."""
    return re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", page.read_text(), re.DOTALL)


def test_python_blocks_print_what_the_page_says(tmp_path: Path) -> None:
    page = ROOT / "simulator/docs/api.md"
    blocks = python_blocks(page)
    assert len(blocks) == page.read_text().count("```python")
    program = "\nprint('----', flush=True)\n".join(block for block, _ in blocks)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split("----\n") == [printed for _, printed in blocks], done.stderr


def test_an_import_on_a_page_is_of_what_is_public() -> None:
    from stalerow.simulator import testing

    for block, _ in python_blocks(ROOT / "simulator/docs/api.md"):
        for module, names in re.findall(r"^from (stalerow[\w.]*) import (.*)$", block, re.MULTILINE):
            assert module == "stalerow.simulator.testing"
            assert {name.strip() for name in names.split(",")} <= set(testing.__all__)
