"""Compiled kernels on CUDA tensors give the same digest and the same violations as their references."""

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.generate import from_seed
from stalerow.simulator.run import run

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("variant", ["batch-row", "req-idx"])
@pytest.mark.parametrize("start", range(0, 200, 20))
def test_compiled_and_reference_agree(variant: str, start: int) -> None:
    compiled, reference = kernel_set(variant, "cuda"), kernel_set(f"reference:{variant}")
    for seed in range(start, start + 20):
        schedule = from_seed(seed)
        on_gpu, on_host = run(schedule, compiled), run(schedule, reference)
        assert on_gpu.digest == on_host.digest, f"seed {seed}"
        assert on_gpu.violations == on_host.violations, f"seed {seed}"
