"""Lets these tests drive a bare engine as the engine's own tests do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
