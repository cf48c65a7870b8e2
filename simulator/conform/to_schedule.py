"""A recorded run as a `Schedule`: its options, requests, aborts and sampled counts, for the simulator to run again.

In: a trace. Out: a schedule whose engine makes the recorded steps. Token values differ from the recorded ones; what
is kept is which prefixes are equal, since nothing else reaches the scheduler. The recording says nothing about the
memory behind a block id, so small states stand in, of another shape for each kind of recurrent group. `TraceCheck`
watches the run and compares every step with the recorded one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.conform.agreement import first_difference
from stalerow.simulator.conform.trace import Record, ScheduleRecord, Trace, UpdateRecord, load_trace
from stalerow.simulator.conform.wire import step_record
from stalerow.simulator.engine import profile
from stalerow.simulator.engine.step import Step
from stalerow.simulator.errors import UsageError
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.schedule.values import Abort, Limits, Pipeline, Request, Reset, Schedule, validate

if TYPE_CHECKING:
    from stalerow.simulator.run.simulation import Observer, Simulation

CONV = StateSpec("conv", 4, 2)
TEMPORAL = StateSpec("temporal", 8, 2)
KV_BYTES = 8


def read_trace(path: str | Path) -> Trace:
    """A recorded run from a file. Raises `UsageError`."""
    try:
        return load_trace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): give a recorded run (.json, .json.gz)") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def to_schedule(trace: Trace, name: str) -> Schedule:
    """The schedule that makes the recorded steps; `name` stands for the file in errors.

    Raises `UsageError` for a recording with options that a schedule cannot state.
    """
    try:
        return _schedule(trace, name)
    except UsageError:
        raise
    except KeyError as error:
        raise UsageError(f"{name}: has a row of request {error}, which was never admitted: record it again") from None
    except ValueError as error:  # an unknown release, a layout that cannot be
        raise UsageError(f"{name}: {error}") from None


def _schedule(trace: Trace, name: str) -> Schedule:
    config, records = trace.meta.config, trace.records()
    _refuse(trace, name)
    steps = [r for r in records if isinstance(r, ScheduleRecord)]
    accepted, stops = _accepted(steps, name), _stops(records)
    streams = _Streams()
    requests = tuple(
        Request(
            id=r.id,
            arrival=r.arrival,
            prompt_len=r.prompt_len,
            max_tokens=r.max_tokens,
            stream=streams.number(r.seed),
            share=None if r.share is None else (streams.number(r.share[0]), min(r.share[1], r.prompt_len)),
            accepted=tuple(accepted.get(r.id) or (0,)),
            stop=stops.get(r.id, 0),
            cache_salt=r.cache_salt,
            skip_reading_prefix_cache=r.skip_reading_prefix_cache,
            priority=r.priority,
        )
        for r in trace.workload.requests
    )
    known = {r.id for r in requests}
    limits = Limits(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=config.max_model_len,
        retention_interval=config.retention_interval,
        prefix_match_unit=config.prefix_match_unit,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        long_prefill_token_threshold_adaptive=config.long_prefill_token_threshold_adaptive,
        max_num_active_seqs=config.max_num_active_seqs,
        prefill_schedule_interval=config.prefill_schedule_interval,
        cache_aware_admission_window=config.cache_aware_admission_window,
        cache_aware_admission_threshold=config.cache_aware_admission_threshold,
        reserve_full_isl=trace.meta.scheduler_reserve_full_isl,
        watermark=config.watermark or 0.0,
        policy=config.policy,
        shared_prefix_checkpoint=config.shared_prefix_ckpt,
        drop_draft_block=not config.disable_eagle_block_drop,
        lookahead_hashes=config.lookahead_hashes,
        max_steps=max((r.step for r in steps), default=0) + (0 if _cut_short(records) else 1),
    )
    made = Schedule(
        pipeline=Pipeline(
            pp=config.P,
            drafts=config.K,
            async_scheduling=config.asynchronous,
            profile=profile(trace.meta.version).name,
            drafter=config.drafter,
            drafts_per_batch_size=config.drafts_per_batch_size,
        ),
        layout=_layout(trace),
        limits=limits,
        requests=requests,
        resets=tuple(Reset(step=r.step, running=r.running) for r in trace.workload.resets),
        aborts=tuple(Abort(request=a.id, step=a.step, phase=a.phase) for a in trace.workload.aborts if a.id in known),
    )
    try:
        return validate(made)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


class _Streams:
    """Numbers for the recorder's prompt streams, whose names may be words."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, seed: int | str) -> int:
        return self._numbers.setdefault(str(seed), len(self._numbers))


def _refuse(trace: Trace, name: str) -> None:
    workload = trace.workload
    reasons = {
        "a prompt that continues another request": any(
            str(r.share[0]).startswith("req:") for r in workload.requests if r.share
        ),
        "prefill checkpoints": trace.meta.config.num_prefill_checkpoint_blocks > 0,
        "a sliding-window group": any(g.type == "SlidingWindowSpec" for g in trace.meta.groups),
        "no recurrent group": all(g.type != "MambaSpec" for g in trace.meta.groups),
    }
    found = [reason for reason, there in reasons.items() if there]
    if found:
        raise UsageError(f"{name}: recorded with {', '.join(found)}, which a schedule cannot state: use 'conform'")


def _stops(records: list[Record]) -> dict[str, int]:
    """The output with which each request that met a stop token ended."""
    outputs: dict[str, int] = {}
    stops: dict[str, int] = {}
    for record in records:
        for request, (count, reason) in record.delivered.items() if isinstance(record, UpdateRecord) else ():
            outputs[request] = outputs.get(request, 0) + count
            if reason == "stop":
                stops[request] = outputs[request]
    return stops


def _accepted(steps: list[ScheduleRecord], name: str) -> dict[str, list[int]]:
    """Drafts accepted in every verification row of each request, in order.

    Placeholder drafts of a padded admission are no verification; the recorder never accepts them, nor does a run.
    """
    prefill_len: dict[str, int] = {}
    accepted: dict[str, list[int]] = {}
    for record in steps:
        prefill_len |= {new.req: new.prefill_len for new in record.new}
        for row in record.scheduled:
            if not row.drafts or not row.final_or_decode:
                continue
            if row.computed >= prefill_len[row.req]:
                accepted.setdefault(row.req, []).append(row.will_sample - 1)
            elif row.will_sample != 1:
                raise UsageError(f"{name}: step {record.step} accepts placeholder drafts of {row.req}: record it again")
    return accepted


def _cut_short(records: list[Record]) -> bool:
    """Whether the recorder's limit of iterations ended the run with work left."""
    last = next((r for r in reversed(records) if isinstance(r, ScheduleRecord)), None)
    return last is not None and bool(last.running or last.waiting)


def _layout(trace: Trace) -> Layout:
    groups = []
    for group in trace.meta.groups:
        if group.type == "MambaSpec":
            states = (CONV, *[TEMPORAL] * (1 + group.spec))
            groups.append(GroupSpec("recurrent", group.block_size, states=states))
        else:
            groups.append(GroupSpec("attention", group.block_size, kv_bytes=KV_BYTES))
    return Layout(
        groups=tuple(groups), layers=1, num_blocks=trace.meta.config.num_blocks, num_drafts=trace.meta.config.K
    )


class TraceCheck:
    """An observer that compares every step with the recorded one and passes events on to `inner`.

    Compared is what reaches a rank (rows, admissions, appended blocks, frees, blocks to zero and to copy), the steps in
    flight, sampled counts and the scheduler's block lists. `difference` is the first one in words.
    """

    def __init__(self, trace: Trace, inner: Observer | None = None) -> None:
        self._expected = [r for r in trace.records() if isinstance(r, ScheduleRecord)]
        self.inner = inner
        self.steps = 0
        self.values = 0
        self.difference: str | None = None

    def __call__(self, simulation: Simulation, actor: str, done: Operation | Step | None) -> None:
        if isinstance(done, Step) and self.difference is None:
            self._compare(simulation, done)
        if self.inner is not None:
            self.inner(simulation, actor, done)

    def _compare(self, simulation: Simulation, step: Step) -> None:
        where = f"schedule of step {step.number}"
        if self.steps == len(self._expected):
            self.difference = f"{where}: not recorded, the engine goes on"
            return
        expected = self._expected[self.steps]
        plan = simulation.planner.plans[step.number]
        inflight = [n for n in simulation.engine.core.inflight if n != step.number]
        sampled = {request: row.num_sampled for request, row in plan.rows.items()}
        got = step_record(step, inflight, sampled)
        want = step_record(expected)
        if "skip_drafts" not in want:
            del got["skip_drafts"]
        values, words = first_difference(want, got)
        self.values += values
        if words is not None:
            self.difference = f"{where}: {words}"
            return
        self.steps += 1

    def finish(self) -> None:
        """The run is over: everything recorded must have come."""
        if self.difference is None and self.steps < len(self._expected):
            missing = self._expected[self.steps].step
            self.difference = f"schedule of step {missing}: recorded, but the engine has nothing left to do"
