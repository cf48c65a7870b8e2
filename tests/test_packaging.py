"""What is installed is what is in the folders: every package, and every file beside the modules that they read."""

import importlib
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOP = ("kernels", "scenarios", "simulator")
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]

NOT_INSTALLED = ("simulator/README.md", "simulator/docs/*")
"""For readers of the repository."""


def folders() -> Iterator[Path]:
    """Every folder with modules, relative to the repository."""
    for top in TOP:
        yield from sorted({path.parent.relative_to(ROOT) for path in (ROOT / top).rglob("*.py")})


def package_of(folder: Path) -> str:
    return ".".join(("stalerow", *folder.parts))


def test_listed_packages_are_the_folders() -> None:
    assert sorted(SETUPTOOLS["packages"]) == sorted(map(package_of, folders()))
    assert {f"stalerow.{top}": top for top in TOP} == SETUPTOOLS["package-dir"]


def test_listed_files_are_those_beside_the_modules() -> None:
    listed, found = set(), set()
    for folder in folders():
        patterns = SETUPTOOLS["package-data"].get(package_of(folder), [])
        for pattern in patterns:
            matching = {path for path in (ROOT / folder).glob(pattern) if path.is_file()}
            assert matching, f"{package_of(folder)}: nothing is called {pattern}"
            listed |= matching
    for top in TOP:
        found |= {p for p in (ROOT / top).rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    left_out = {p for p in found if any(fnmatch(p.relative_to(ROOT).as_posix(), name) for name in NOT_INSTALLED)}
    assert sorted(found - left_out) == sorted(listed)


@pytest.mark.parametrize("folder", list(folders()), ids=str)
def test_every_module_can_be_imported(folder: Path) -> None:
    for path in sorted((ROOT / folder).glob("*.py")):
        name = package_of(folder) + ("" if path.stem == "__init__" else f".{path.stem}")
        missing = _missing(name)
        # What runs inside an engine's environment may need the engine, and nothing else that is not here.
        inside = package_of(folder) == "stalerow.simulator.worker.inside"
        assert missing == "" or (inside and missing == "vllm"), f"{name} needs {missing}"


def _missing(name: str) -> str:
    """The distribution without which a module cannot be imported."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        return (error.name or name).partition(".")[0]
    return ""
