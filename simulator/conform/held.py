"""What a recorded scheduler held and let wait, judged as a run of ours is: leaks, starvation, preemption in circles.

In: a recorded run. Out: the first thing wrong with its resources, in words. It needs no engine to compare with.
"""

from __future__ import annotations

from stalerow.simulator.conform.trace import ScheduleRecord, Trace
from stalerow.simulator.conform.wire import to_step
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.resources import Resources
from stalerow.simulator.oracle.violations import Violation


def first_held(trace: Trace) -> str | None:
    """The kind and the explanation of the first violation; None if there is none."""
    found: list[Violation] = []
    judge = Resources(trace.meta.engine_config(), found)
    most = {request.id: request.max_tokens for request in trace.workload.requests}
    steps: dict[int, Step] = {}
    try:
        for record in trace.records():
            if isinstance(record, ScheduleRecord):
                if record.resets_before_schedule:
                    judge.reset()
                step = steps[record.step] = to_step(record, {new.req: () for new in record.new}, most, {})
                judge.scheduled(step)
            else:
                judge.processed(steps[record.processed_step], record.sampled)
        judge.final()
    except (KeyError, IndexError, ValueError):
        pass  # a recording that contradicts itself differs from any engine; what was found before that stands
    return f"{found[0].kind}: {found[0].explanation}" if found else None
