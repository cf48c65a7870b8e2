"""Kernels for the properties: those that the command line names, else the NumPy ones, which take milliseconds."""

import pytest

from stalerow.simulator.subject.subject import Subject


@pytest.fixture(scope="session")
def stalerow_kernels(pytestconfig: pytest.Config, stalerow_device: str) -> Subject:
    named = pytestconfig.getoption("--stalerow-kernels")
    return Subject(kernels=named or "reference:req-idx", device=stalerow_device)
