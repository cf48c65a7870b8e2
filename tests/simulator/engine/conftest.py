"""Where the engine tests' shared helper is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
