"""compute-sanitizer finds nothing in the copy kernels, the aligned indices and a step's bookkeeping.

PyTorch's caching allocator is off, so that every array is an allocation whose end the sanitizer knows.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
TESTS = "req-idx-SD-16 or batch-row-DS-1 or 3-SD-16 or 16-DS-1 or outside_a_graph"


@pytest.mark.parametrize("tool", ["memcheck", "initcheck"])
def test_the_kernel_tests_are_clean(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on the PATH")
    tests = [str(HERE.parent / "kernels" / "align" / "test_copy_tiles.py"), str(HERE / "test_graphs.py"), "-k", TESTS]
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", "pytest", "-q", *tests]
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if "Device not supported" in done.stdout:
        pytest.skip("compute-sanitizer does not support this machine's device")
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout, done.stdout[-3000:]
    assert " skipped" not in done.stdout, done.stdout[-3000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout, done.stdout[-3000:]
