"""Kernels are compiled for the host here, whatever the other kernel tests run on."""

import sys
from pathlib import Path

import pytest

from stalerow.kernels.base.device import DeviceError
from stalerow.kernels.own.devices import backend

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def host():
    """The backend that compiles for the host; tests are skipped in a process that interprets kernels."""
    try:
        return backend("triton-cpu")
    except DeviceError as error:
        pytest.skip(str(error))
