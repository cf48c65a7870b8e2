"""Compiled kernels on CUDA tensors give the same digest and the same violations as their references."""

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_compiled_and_reference_agree(start: int) -> None:
    compiled, reference = kernel_set("req-idx", "cuda"), kernel_set("reference:req-idx")
    for seed in range(start, start + 20):
        schedule = from_seed(seed)
        on_gpu, on_host = run(schedule, compiled), run(schedule, reference)
        assert on_gpu.digest == on_host.digest, f"seed {seed}"
        assert on_gpu.violations == on_host.violations == (), f"seed {seed}"


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_a_broken_kernel_set_fails_in_the_same_way(start: int) -> None:
    """Except where several programs of one launch write the null block: which of them is last is not defined."""
    compiled, reference = kernel_set("batch-row", "cuda"), kernel_set("reference:batch-row")
    for seed in range(start, start + 20):
        schedule = from_seed(seed)
        on_gpu, on_host = run(schedule, compiled), run(schedule, reference)
        assert bool(on_gpu.violations) == bool(on_host.violations), f"seed {seed}"
        if all(v.target_block for v in (*on_gpu.violations, *on_host.violations)):
            assert on_gpu.digest == on_host.digest, f"seed {seed}"
            assert on_gpu.violations == on_host.violations, f"seed {seed}"
