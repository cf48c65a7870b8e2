"""Comparison of our engine with recorded runs of a released scheduler, field by field.

In: trace files (see `trace`). Out: per file how much was compared, and the first difference in words. A run
stops at its first difference, since everything after it follows from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from stalerow.simulator.conform.held import first_held
from stalerow.simulator.conform.ours import OurRun
from stalerow.simulator.conform.trace import Record, ScheduleRecord, Trace, UpdateRecord, load_trace
from stalerow.simulator.engine import Profile
from stalerow.simulator.engine import profile as find_profile

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Conformance:
    """The result for one run: records (schedules and processed outputs), steps and single values compared.

    `raised`: the engine under comparison failed by itself, and where; then nothing was compared. `held`: what is wrong
    with the blocks that it held, or with whom it let wait.
    """

    name: str
    version: str
    records: int
    steps: int
    values: int
    difference: str | None
    raised: str | None = None
    held: str | None = None

    @property
    def place(self) -> str:
        """Where the engine failed, file:line; empty if it did not."""
        return (self.raised or "").rpartition(" at ")[2]

    @property
    def agrees(self) -> bool:
        """Whether every value of every record is the same, and what the engine held is what it needed."""
        return self.difference is None and self.raised is None and self.held is None


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """Results of several runs, in order."""

    runs: tuple[Conformance, ...]

    @property
    def agrees(self) -> bool:
        """Whether all runs agree."""
        return all(run.agrees for run in self.runs)

    @property
    def steps(self) -> int:
        """Steps compared over all runs."""
        return sum(run.steps for run in self.runs)

    @property
    def values(self) -> int:
        """Single values compared over all runs."""
        return sum(run.values for run in self.runs)

    @property
    def first_difference(self) -> Conformance | None:
        """The first run that differs."""
        return next((run for run in self.runs if not run.agrees), None)


def conform_trace(path: str | Path, profile: Profile | str | None = None) -> Conformance:
    """Compare our engine with a recorded run; the profile is that of the recorded version unless given.

    ValueError if the file is not a recorded run or its version has no profile.
    """
    trace = load_trace(path)
    name = Path(path).name.removesuffix(".gz").removesuffix(".json")
    return trace_agreement(name, trace, profile)


def conform_traces(paths: Iterable[str | Path], profile: Profile | str | None = None) -> ConformanceReport:
    """Compare our engine with several recorded runs."""
    return ConformanceReport(tuple(conform_trace(path, profile) for path in paths))


def trace_agreement(name: str, trace: Trace, profile: Profile | str | None = None) -> Conformance:
    """Compare our engine with a recorded run that is loaded already."""
    version = trace.meta.version
    rules = profile if isinstance(profile, Profile) else find_profile(profile or version)
    try:
        records = trace.records()
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: expected records of a scheduler run ({error}); record it again") from error
    returns = {
        (record.step, row.req): row.will_sample
        for record in records
        if isinstance(record, ScheduleRecord)
        for row in record.scheduled
    }
    ours = OurRun(trace.meta.engine_config(), rules, trace.workload, returns)
    got = ours.records(trace.meta.config.steps)
    last = max((record.step for record in records if isinstance(record, ScheduleRecord)), default=0)
    if any(record.after_schedule_of > last for record in records if isinstance(record, UpdateRecord)):
        # Cut short: of the steps after the cut only outputs of earlier steps were kept.
        got = itertools.islice(
            (record for record in got if not isinstance(record, ScheduleRecord) or record.step <= last),
            len(records),
        )
    return replace(_compare(name, version, records, got), held=first_held(trace))


def _compare(name: str, version: str, expected: Sequence[Record], got: Iterator[Record]) -> Conformance:
    records = steps = values = 0
    difference = None
    for record in expected:
        records += 1
        where = _place(record)
        try:
            mine = next(got, None)
        except Exception as error:
            mine, difference = None, f"{where}: the engine failed with {type(error).__name__}: {error}"
        if mine is None:
            difference = difference or f"{where}: recorded, but the engine has nothing left to do"
            break
        mine = _as_written(record, mine)
        compared, words = first_difference(msgspec.to_builtins(record), msgspec.to_builtins(mine))
        values += compared
        if words is not None:
            difference = f"{where}: {words}"
            break
        steps += isinstance(record, ScheduleRecord)
    else:
        extra = next(got, None)
        if extra is not None:
            difference = f"{_place(extra)}: not recorded, the engine goes on"
    return Conformance(name, version, records, steps, values, difference)


def _as_written(record: Record, mine: Record) -> Record:
    """Without what 0.32 does not say and older recordings lack."""
    if isinstance(mine, ScheduleRecord) and isinstance(record, ScheduleRecord) and record.skip_drafts is msgspec.UNSET:
        return msgspec.structs.replace(mine, skip_drafts=msgspec.UNSET)
    return mine


def _place(record: Record) -> str:
    if isinstance(record, ScheduleRecord):
        return f"schedule of step {record.step}"
    return f"output of step {record.processed_step}, processed after schedule {record.after_schedule_of}"


def first_difference(expected: Any, got: Any) -> tuple[int, str | None]:
    """How many single values of two records (plain data) were compared, and their first difference in words."""
    compared, difference = _first_difference(expected, got)
    return compared, None if difference is None else _in_words(difference)


@dataclass(frozen=True, slots=True)
class _Difference:
    path: Path_
    expected: Any
    got: Any


def _first_difference(expected: Any, got: Any, path: Path_ = ()) -> tuple[int, _Difference | None]:
    """How many single values were compared, and the first that differs."""
    if isinstance(expected, dict) and isinstance(got, dict):
        keys: Iterable[str | int] = [*expected, *(key for key in got if key not in expected)]
    elif isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        keys = range(max(len(expected), len(got)))
    else:
        return 1, None if expected == got else _Difference(path, expected, got)
    compared = 1
    for key in keys:
        count, difference = _first_difference(
            _item(expected, key), _item(got, key), (*path, _label(expected, got, key))
        )
        compared += count
        if difference is not None:
            return compared, difference
    return compared, None


def _item(container: Any, key: str | int) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[key] if isinstance(key, int) and key < len(container) else None


def _label(expected: Any, got: Any, key: str | int) -> str | int:
    """Rows are named after their request, everything else by key or position."""
    for container in (expected, got):
        item = _item(container, key)
        if isinstance(key, int) and isinstance(item, dict) and "req" in item:
            return str(item["req"])
    return key


_NAMES = {
    "scheduled": "row of request {}",
    "new": "admission of request {}",
    "cached": "update of request {}",
    "sched_blocks": "block lists of request {}",
    "state": "counters of request {}",
    "sampled": "tokens sampled for request {}",
    "delivered": "delivery to request {}",
}
_BLOCKS = ("block_ids", "new_block_ids")
_COUNTERS = ("num_computed_tokens", "num_output_placeholders", "num_stale_output_tokens", "status")


def _in_words(difference: _Difference) -> str:
    head, *rest = difference.path
    words = [_NAMES[str(head)].format(repr(rest.pop(0))) if head in _NAMES and rest else str(head)]
    if head == "state" and len(rest) == 2 and isinstance(rest[1], int):
        words.append(f"{_COUNTERS[rest[1]]} {rest[0]} the update")
        rest = []
    elif rest and rest[0] in _BLOCKS:
        words.append(str(rest.pop(0)))
    if (head == "sched_blocks" or words[-1] in _BLOCKS) and rest:
        words.append(f"group {rest.pop(0)}")
        if rest:
            words.append(f"column {rest.pop(0)}")
    words.extend(f"position {item}" if isinstance(item, int) else str(item) for item in rest)
    return f"{', '.join(words)}: recorded {_value(difference.expected)}, engine {_value(difference.got)}"


def _value(value: Any) -> str:
    return "nothing" if value is None else repr(value)
