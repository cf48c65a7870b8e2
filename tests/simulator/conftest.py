"""What the tests of fuzzing share: kernel sets that misbehave, importable here and in worker processes."""

from pathlib import Path

import pytest


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes `stalerow_doubles:NAME` a kernel set; returns the folder to put on a subprocess's PYTHONPATH."""
    folder = str(Path(__file__).parent / "doubles")
    monkeypatch.syspath_prepend(folder)
    return folder
