"""Every module can be imported by its name, with nothing but what the project depends on."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOP = ("kernels", "scenarios", "simulator")


def folders() -> Iterator[Path]:
    """Every folder with modules, relative to the repository."""
    for top in TOP:
        yield from sorted({path.parent.relative_to(ROOT) for path in (ROOT / top).rglob("*.py")})


def package_of(folder: Path) -> str:
    return ".".join(("stalerow", *folder.parts))


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
