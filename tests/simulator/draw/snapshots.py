"""Snapshots of what users see. STALEROW_UPDATE_SNAPSHOTS=1 rewrites them; look at what changed before it is kept."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def check(name: str, text: str) -> None:
    path = FOLDER / name
    if os.environ.get("STALEROW_UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text + "\n"
