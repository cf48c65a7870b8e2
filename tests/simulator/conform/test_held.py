"""What a recorded scheduler held, judged without an engine beside it: a reset that preempts is told to the judge."""

from pathlib import Path

import msgspec

from stalerow.simulator.conform.held import first_held
from stalerow.simulator.conform.ours import OurRun
from stalerow.simulator.conform.trace import Trace, TraceRequest, TraceReset, Workload, load_trace
from stalerow.simulator.engine import profile

TRACES = Path(__file__).parents[2] / "data" / "traces"


def recorded(workload: Workload, **config: int) -> Trace:
    """A run of a hybrid pipeline (P 2, K 2) as its recorder would have written it."""
    trace = load_trace(TRACES / "v032_04_P2_K2_preempt_resume.json.gz")
    meta = msgspec.structs.replace(trace.meta, config=msgspec.structs.replace(trace.meta.config, **config))
    run = OurRun(meta.engine_config(), profile(meta.version), workload, {})
    records = [msgspec.to_builtins(record) for record in run.records(60)]
    return msgspec.structs.replace(trace, meta=meta, workload=workload, trace=records)


def test_resets_that_preempt_a_request_again_and_again_are_no_loop():
    request = TraceRequest(id="r0", prompt_len=60, max_tokens=2, seed=0)
    resets = [TraceReset(step) for step in range(2, 12, 2)]
    trace = recorded(Workload([request], resets=resets), max_num_batched_tokens=16)
    preempted = [record for record in trace.trace if record.get("preempted_req_ids")]
    assert len(preempted) == 5
    assert first_held(trace) is None
    untold = [{**record, "resets_before_schedule": []} if "step" in record else record for record in trace.trace]
    held = first_held(msgspec.structs.replace(trace, trace=untold)) or ""
    assert held.startswith("preemption loop: r0 is preempted for the 4th time")
