"""A run of an engine's own worker is drawn like one of our own ranks."""

from stalerow.simulator.draw.from_worker import worker_events
from stalerow.simulator.draw.picture import drawn
from stalerow.simulator.draw.record import Record
from stalerow.simulator.engine.step import NewRequest, ScheduledRow, Step
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.worker.protocol import Deferred, Ran, RankStep


def step(number: int, request: str) -> Step:
    new = (NewRequest(request, 4, (1, 2, 3, 4), 0, ((1,),), False, 0, 5),) if number < 3 else ()
    row = ScheduledRow(request, 2, 1, 4, True)
    return Step(number, (row,), new, (), (), (), (), (), {}, {}, 9)


def batch(number: int, request: str, slot: int) -> RankStep:
    return RankStep(0, number, (request,), (slot,), (4,), (0,), (1,), ((),), ((),), "")


RAN = Ran(
    violations=(
        Violation(
            kind="cross-request copy",
            rank=0,
            launch="postprocess",
            step=2,
            during=4,
            deferred=True,
            explanation="a copy went wrong",
        ),
    ),
    marks={},
    digest="0" * 32,
    steps=4,
    taken=(),
    rank_steps=4,
    building=0.0,
    seconds=0.0,
    engine_steps=tuple(step(n, f"r{1 - n % 2}") for n in range(1, 5)),
    ranks=tuple(batch(n, f"r{1 - n % 2}", 1 - n % 2) for n in range(1, 4)),
    deferred=(Deferred(0, 1, 3, 2, ("r0",), ("r0",), False),),
)


def test_the_last_event_is_the_launch_that_the_violation_names():
    last = worker_events(RAN)[-1]
    assert last.violations == (0,)
    assert (last.what.launch, last.what.of, last.what.step, last.what.table) == ("postprocess", 2, 4, 3)
    assert [seat.request for seat in last.what.rows] == ["r1"]


def test_steps_batches_and_late_launches_are_in_the_picture():
    record = Record(
        kernels="vllm==0.30.0's own worker",
        pp=1,
        drafts=1,
        runner="v2",
        num_blocks=9,
        lookup="slot",
        groups=(),
        requests=(),
        events=worker_events(RAN),
        violations=RAN.violations,
    )
    text = drawn(record, 100)
    for wanted in ("a copy went wrong", "step 4 *", "r1 +2d1", "of 1", "!! of 2"):
        assert wanted in text, text
