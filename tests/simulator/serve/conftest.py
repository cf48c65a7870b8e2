"""Where the shared helpers of the serving tests are."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
