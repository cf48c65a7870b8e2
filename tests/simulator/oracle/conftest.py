"""Makes what is made by hand here importable, and lets these tests drive an engine and a rank as their tests do."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), *(str(Path(__file__).parents[1] / name) for name in ("engine", "rank"))]
