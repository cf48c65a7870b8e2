"""Tests that need a GPU: skipped with the reason unless STALEROW_TEST_DEVICE=cuda and torch sees a device."""

import os
import sys
from pathlib import Path

import pytest

# The machine that the kernel tests drive kernels with serves here too.
sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))


def _reason() -> str | None:
    if os.environ.get("STALEROW_TEST_DEVICE") != "cuda":
        return "STALEROW_TEST_DEVICE is not 'cuda': this process interprets Triton on the CPU"
    import torch

    return None if torch.cuda.is_available() else "torch sees no CUDA device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [i for i in items if Path(__file__).parent in i.path.parents]
    if here and (reason := _reason()):
        for item in here:
            item.add_marker(pytest.mark.skip(reason=reason))
