"""A cache of its own for every test of the external kernels, so that none sees or changes the user's."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's cache folder; tests of published releases keep the user's, which spares the download."""
    folder = tmp_path / "cache"
    if request.node.get_closest_marker("network") is None:
        monkeypatch.setenv("STALEROW_CACHE", str(folder))
    return folder
