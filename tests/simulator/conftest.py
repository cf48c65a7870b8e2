"""What the tests of fuzzing share: kernel sets that misbehave, importable here and in worker processes."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from stalerow.simulator.campaign import process

LONGER_THAN_ANY_LIMIT_S = 10_000.0


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes `stalerow_doubles:NAME` a kernel set; returns the folder to put on a subprocess's PYTHONPATH."""
    folder = str(Path(__file__).parent / "doubles")
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Time for workers' limits stands still until one of `doubles` hangs, and is up then, however fast the machine."""
    told = tmp_path / "hanging"
    monkeypatch.setenv("STALEROW_TEST_HANGING", str(told))

    def clock() -> float:
        return told.stat().st_size * LONGER_THAN_ANY_LIMIT_S if told.exists() else 0.0

    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
