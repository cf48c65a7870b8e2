"""Packs on the GPU, each rank on streams of its own, show what packs on the reference show."""

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.universes.execute import execute
from stalerow.simulator.universes.pack import pack
from stalerow.simulator.universes.record import record

pytestmark = pytest.mark.gpu

UNIVERSES = 200


@pytest.mark.parametrize("family", range(3))
@pytest.mark.parametrize("name", ["req-idx", "batch-row"])
def test_packs_on_the_gpu_equal_packs_on_the_reference(name: str, family: int) -> None:
    compiled, reference = kernel_set(name, "cuda"), kernel_set(f"reference:{name}")
    schedules = [from_draw(Draw(seed, runner="v2", family=family)) for seed in range(UNIVERSES)]
    made = pack(schedules[0].layout, [record(s, reference.align) for s in schedules])
    on_gpu, on_host = execute(made, compiled), execute(made, reference)
    assert [v.first for v in on_gpu] == [v.first for v in on_host]
    for seed, (ours, theirs) in enumerate(zip(on_gpu, on_host)):
        # Wrong copies may race one another.
        assert ours.memory == theirs.memory or theirs.first is not None, f"seed {seed}"
    alone = run(schedules[3], compiled)
    assert bool(alone.violations) == (on_gpu[3].first is not None)
    assert alone.memory == on_gpu[3].memory or alone.violations
