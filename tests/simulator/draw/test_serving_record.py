"""A serving run as a record: every event at its own time, in order of their start, without a look at memory."""

from itertools import pairwise

import pytest
from small import step
from small_serving import small_requests

from stalerow.simulator.draw.record import Executed, Prepared, Processed, Record, Scheduled
from stalerow.simulator.draw.serving_record import STEPS_AFTER, STEPS_BEFORE, ServingRecorder
from stalerow.simulator.serve.acceptance import from_mean
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.serve.job import ServeJob, serve
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.subject.subject import Subject

OPTIONS = ServeOptions(
    pipeline_parallel_size=2, block_size=16, num_gpu_blocks=200, max_num_seqs=4, max_num_batched_tokens=64
)
JOB = ServeJob(
    subject=Subject(kernels="reference:req-idx"),
    options=OPTIONS,
    requests=small_requests(num_prompts=4, input_len=12, output_len=24, prefix_len=8),
    acceptance=from_mean(3.0, 4),
    costs=Costs(),
    max_concurrency=2,
    seed=7,
)


@pytest.fixture(scope="module")
def record() -> Record:
    recorder = ServingRecorder()
    return recorder.record(serve(JOB, recorder), JOB, whole=True)


def of(record: Record, kind: type) -> list:
    return [event for event in record.events if isinstance(event.what, kind)]


def test_events_are_numbered_by_their_start(record):
    assert [event.number for event in record.events] == [*range(1, len(record.events) + 1)]
    assert all(a.start <= b.start for a, b in pairwise(record.events))
    assert all(event.end >= event.start >= 0 for event in record.events)


def test_every_step_is_scheduled_prepared_by_every_rank_and_processed(record):
    steps = [event.what.step for event in of(record, Scheduled)]
    assert len(steps) == len({*steps}) == record.steps
    assert {event.what.step for event in of(record, Processed)} <= {*steps}
    for rank in range(2):
        assert [e.what.step for e in of(record, Prepared) if e.rank == rank] == steps


def test_launches_are_on_their_ranks_streams_with_their_rows(record):
    launches = of(record, Executed)
    assert {event.actor for event in launches} == {"main", "side"}
    assert {e.what.launch for e in launches if e.actor == "side"} == {"broadcast"}
    late = [e for e in launches if e.what.launch == "postprocess" and e.rank == 0]
    assert late
    assert all(e.what.of < e.what.step for e in late)
    assert {seat.request for e in late for seat in e.what.rows} <= {r.id for r in JOB.requests}
    forwards = [e for e in launches if e.what.launch == "forward"]
    assert all(e.what.table == e.what.of for e in forwards)


def test_what_was_asked_for_and_delivered_adds_up(record):
    assert [(asked.id, asked.prompt) for asked in record.requests] == [(r.id, r.prompt_len) for r in JOB.requests]
    tokens = sum(output.tokens for event in of(record, Processed) for output in event.what.outputs)
    assert tokens > 0
    assert (record.pp, record.lookup, record.violations) == (2, "slot", ())
    assert not any(write for event in of(record, Executed) for write in event.what.writes)


def test_the_steps_in_flight_are_bounded_by_the_pipeline(record):
    assert 1 <= max(event.in_flight for event in record.events) <= 2 + OPTIONS.async_scheduling


def test_a_page_shows_the_last_steps_of_a_run_without_damage(record):
    recorder = ServingRecorder(whole=False)
    shown = recorder.record(serve(JOB, recorder), JOB, whole=False)
    steps = {event.what.step for event in shown.events}
    assert record.steps > STEPS_BEFORE + 1
    assert steps == {*range(record.steps - STEPS_BEFORE, record.steps + 1)}
    assert [e.what for e in shown.events] == [e.what for e in record.events if e.what.step in steps]
    assert shown.unwatched.clean


def test_steps_past_the_damage_are_left_out_and_those_long_before_it_forgotten():
    recorder = ServingRecorder(whole=False)
    for number in range(1, 31):
        if number == 20:
            recorder.damaged(number)
        recorder.scheduled(step(number), 1, number, number)
    kept = [seen.step for seen, _ in recorder._seen]
    assert kept == [*range(19 - STEPS_BEFORE, 20 + STEPS_AFTER + 1)]
