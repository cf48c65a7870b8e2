"""An engine's kernels in packs of several schedules: absent rows are -1 to them, and each universe is as alone."""

from pathlib import Path

import msgspec
import pytest

from stalerow.kernels.external import load
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.universes.execute import execute
from stalerow.simulator.universes.pack import pack
from stalerow.simulator.universes.record import record

from .synthetic import BATCH_ROW, write_engine


@pytest.mark.parametrize("choices", [{}, BATCH_ROW], ids=["slot", "row"])
def test_every_universe_is_the_run_alone(tmp_path: Path, device: str, choices: dict[str, str]) -> None:
    kernels = load(str(write_engine(tmp_path, **choices)), device)
    # Short ones of a family with two ranks and one state; seed 0 violates where copies look up batch rows.
    schedules = [from_draw(Draw(seed, runner="v2", faithful=True, family=5)) for seed in (0, 1, 16)]
    shapes = {msgspec.structs.replace(s.layout, num_blocks=2) for s in schedules}
    assert len(shapes) == 1
    tapes = [record(schedule, kernels.align) for schedule in schedules]
    flagged = []
    for verdict, tape, schedule in zip(execute(pack(schedules[0].layout, tapes), kernels), tapes, schedules):
        outcome = run(schedule, kernels)
        assert verdict.memory == outcome.memory
        assert (verdict.first is not None or bool(tape.suspects)) == bool(outcome.violations)
        flagged.append(bool(outcome.violations))
    assert any(flagged) == bool(choices)
