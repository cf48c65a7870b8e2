"""Which device the kernel tests run on, and where their shared helpers are.

`device` is "cpu" (compiled for the host) unless STALEROW_TEST_DEVICE says "interpreter" or "cuda".
"""

import os
import sys
from pathlib import Path

import pytest

DEVICE = os.environ.get("STALEROW_TEST_DEVICE", "cpu")

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def device() -> str:
    """The device of the Triton kernel sets: "cpu", "interpreter" or "cuda"."""
    return DEVICE
