"""Recorded runs of models with sliding-window layers: every decision as recorded, and what differs is seen."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stalerow.simulator.conform.agreement import conform_trace, trace_agreement
from stalerow.simulator.conform.to_schedule import to_schedule
from stalerow.simulator.conform.trace import ScheduleRecord, Trace, load_trace
from stalerow.simulator.errors import UsageError

FILES = sorted((Path(__file__).parents[2] / "data" / "windows").glob("*.json.gz"))
HITS = [path for path in FILES if "hits" in path.name]


def with_groups(trace: Trace, **fields: Any) -> Trace:
    """The recording as if its windows were others."""
    groups = [msgspec.structs.replace(g, **fields) if g.sliding_window else g for g in trace.meta.groups]
    return msgspec.structs.replace(trace, meta=msgspec.structs.replace(trace.meta, groups=groups))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_the_engine_decides_what_the_released_scheduler_decided(path: Path) -> None:
    result = conform_trace(path)
    assert (result.difference, result.held) == (None, None)
    assert result.steps > 40


@pytest.mark.parametrize("path", HITS, ids=lambda path: path.name.partition(".")[0])
def test_the_recordings_have_hits_whose_first_blocks_nobody_needs(path: Path) -> None:
    trace = load_trace(path)
    windows = [index for index, group in enumerate(trace.meta.groups) if group.sliding_window]
    admissions = [new for r in trace.records() if isinstance(r, ScheduleRecord) for new in r.new if new.computed]
    assert any(new.block_ids[g][0] == 0 and any(new.block_ids[g]) for new in admissions for g in windows)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
@pytest.mark.parametrize("fields", [{"sliding_window": 0}, {"sliding_window": 64}], ids=["no window", "a longer one"])
def test_another_window_would_differ(path: Path, fields: dict[str, int]) -> None:
    assert trace_agreement("other", with_groups(load_trace(path), **fields)).difference is not None


def test_a_schedule_cannot_state_a_window() -> None:
    with pytest.raises(UsageError, match=r"odd: recorded with a sliding-window group, which .* use 'conform'"):
        to_schedule(load_trace(FILES[0]), "odd")
