"""Which device the kernel tests run on, and where their shared helpers are.

`device` is "cpu" (Triton interpreted) unless STALEROW_TEST_DEVICE says "cuda". TRITON_INTERPRET has to be set
before Triton is first imported, so it is set here, before any test module is.
"""

import os
import sys
from pathlib import Path

import pytest

DEVICE = os.environ.get("STALEROW_TEST_DEVICE", "cpu")
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def device() -> str:
    """The device of the Triton kernel sets: "cpu" or "cuda"."""
    return DEVICE
