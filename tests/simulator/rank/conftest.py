"""Makes what is made by hand here importable, and lets these tests use the oracle's small layout and its steps."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "oracle")]
