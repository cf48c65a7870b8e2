"""What an engine may hold and how long it may let wait: clean on recorded releases, and a finding where it errs."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from engine_driver import Driver, engine, hybrid, prompt

from stalerow.kernels.sets import kernel_set
from stalerow.scenarios import catalogue
from stalerow.simulator.conform.trace import ScheduleRecord, load_trace
from stalerow.simulator.conform.wire import to_step
from stalerow.simulator.engine import EngineConfig, EngineCore, GroupConfig
from stalerow.simulator.engine.policies import FreePolicy, Policies
from stalerow.simulator.engine.step import Step
from stalerow.simulator.faults import resolve
from stalerow.simulator.oracle.resources import MAX_FUTILE_PREEMPTIONS, Resources
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.engine_config import engine_config
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.plan import Planner

TRACES = sorted((Path(__file__).parents[2] / "data" / "traces").glob("*.json.gz"))
Event = tuple[Step, dict[str, int] | None]


class Judged(Driver):
    """An engine driven as its own tests do, with a judge beside it."""

    def __init__(self, core: EngineCore, accept=lambda row: row.num_drafts) -> None:
        super().__init__(core, accept)
        self.found: list[Violation] = []
        self.judge = Resources(core.config, self.found)

    def schedule(self) -> Step:
        step = super().schedule()
        self.judge.scheduled(step)
        return step

    def process(self):
        step = self.core.inflight_steps[0]
        counts = {row.request: len(self.sampled(row)) for row in step.rows if row.is_final_or_decode}
        delivered = super().process()
        self.judge.processed(step, counts)
        return delivered


def drive(schedule: Schedule, policies: Policies | None = None) -> Judged:
    """The schedule's requests in arrival order through a bare engine, without aborts, with its acceptance."""
    config = engine_config(schedule)
    planner = Planner(schedule.requests, schedule.layout.recurrent_block_size, schedule.pipeline.drafts)
    driver = Judged(EngineCore(config, schedule.pipeline.profile, policies))

    def accept(row) -> int:
        accepted = next(r.accepted for r in schedule.requests if r.id == row.request)
        return accepted[row.num_computed_tokens % len(accepted)]

    driver.accept = accept
    for request in sorted(schedule.requests, key=lambda r: r.arrival):
        while driver.core.has_requests and len(driver.steps) < request.arrival and driver.advance():
            pass
        driver.core.add_request(request.id, planner.prompt(request.id), request.max_tokens)
    driver.run(5000)
    driver.judge.final()
    return driver


def recorded(path: Path) -> tuple[EngineConfig, list[Event]]:
    """A recorded run as steps, and steps with their sampled counts."""
    trace = load_trace(path)
    most = {r.id: r.max_tokens for r in trace.workload.requests}
    steps: dict[int, Step] = {}
    events: list[Event] = []
    for record in trace.records():
        if isinstance(record, ScheduleRecord):
            step = steps[record.step] = to_step(record, {new.req: () for new in record.new}, most, {})
            events.append((step, None))
        else:
            events.append((steps[record.processed_step], record.sampled))
    return trace.meta.engine_config(), events


def judged(config: EngineConfig, events: list[Event]) -> list[Violation]:
    found: list[Violation] = []
    judge = Resources(config, found)
    for step, sampled in events:
        if sampled is None:
            judge.scheduled(step)
        else:
            judge.processed(step, sampled)
    judge.final()
    return found


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_recorded_runs_of_releases_are_clean(path: Path) -> None:
    config, events = recorded(path)
    assert judged(config, events) == []
    assert sum(sampled is None for _, sampled in events) >= 20


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_one_block_more_anywhere_in_a_recorded_run_is_a_leak(path: Path) -> None:
    """Vacuous otherwise: every list has no column to spare, and every block of the pool is accounted for."""
    config, events = recorded(path)
    tried = 0
    for at, changed in _with_a_spare_block(config, events):
        found = judged(config, [*events[:at], (changed, None), *events[at + 1 :]])
        assert {v.kind for v in found} == {"leak"}, changed.number
        tried += 1
    assert tried or "_K0_" in path.name


def _with_a_spare_block(config: EngineConfig, events: list[Event]) -> Iterator[tuple[int, Step]]:
    """Steps in which a running request keeps the state of its first column, long after it was retired."""
    for at, (step, sampled) in enumerate(events):
        if sampled is not None or not step.num_free_blocks:
            continue
        listed = {b for lists in step.block_lists.values() for blocks in lists for b in blocks}
        free = next(b for b in range(1, config.num_blocks) if b not in listed)
        for row in step.rows:
            lists = step.block_lists[row.request]
            if config.groups[0].kind == "recurrent" and len(lists[0]) > 6 and not any(lists[0][:3]):
                kept = ((free, *lists[0][1:]), *lists[1:])
                yield (
                    at,
                    msgspec.structs.replace(
                        step,
                        block_lists={**step.block_lists, row.request: kept},
                        num_free_blocks=step.num_free_blocks - 1,
                    ),
                )


class NeverRetires(FreePolicy):
    def settled_tokens(self, num_computed_tokens, request):
        return 0


class RetiresLate(FreePolicy):
    def settled_tokens(self, num_computed_tokens, request):
        return max(super().settled_tokens(num_computed_tokens, request) - 16, 0)


def test_a_block_before_the_window_is_a_leak_and_one_inside_it_is_not() -> None:
    groups = (GroupConfig("attention", 8, window=17), GroupConfig("attention", 8, draft=True))

    def found(policies: Policies | None) -> list[Violation]:
        config = EngineConfig(groups=groups, num_blocks=80, num_speculative_tokens=2, max_num_batched_tokens=16)
        driver = Judged(EngineCore(config, "0.34", policies))
        driver.core.add_request("a", prompt(90, 1), 20)
        driver.core.add_request("b", prompt(40, 2), 30)
        driver.run()
        return driver.found

    assert found(None) == []
    for policy in (NeverRetires(), RetiresLate()):
        leak = found(Policies(frees=policy))[0]
        assert (leak.kind, leak.group, leak.request) == ("leak", 0, "a")


class LosesABlock(FreePolicy):
    def release(self, pool, blocks, request):
        pool.release(list(blocks)[1:])


def test_the_correct_engine_is_clean_and_comes_to_an_end() -> None:
    for seed in range(120):
        driver = drive(from_seed(seed))
        assert driver.found == [], f"seed {seed}"
        assert driver.core.idle


@pytest.mark.parametrize("policy", [NeverRetires, RetiresLate, LosesABlock])
def test_an_engine_that_keeps_blocks_leaks_in_most_schedules(policy: type[FreePolicy]) -> None:
    firsts = [drive(from_seed(seed), Policies(frees=policy())).found[:1] for seed in range(40)]
    assert {v.kind for found in firsts for v in found} == {"leak"}
    assert sum(map(bool, firsts)) > 20


def test_a_long_prompt_that_keeps_17_states_is_told_in_one_sentence() -> None:
    schedule = catalogue()["wild-leak"].schedule
    assert schedule is not None
    driver = drive(schedule, Policies(frees=NeverRetires()))
    (found,) = driver.found
    assert (found.kind, found.place, found.request) == ("leak", "in the engine", "r0")
    assert found.explanation == (
        "r0 holds 6 states of group 0 after step 5 is scheduled, where 5 are needed: nothing will read column 0 again, "
        "since the outputs of 8 of its 20 scheduled tokens are processed"
    )
    held = max(sum(map(bool, step.block_lists.get("r0", ((),))[0])) for step in driver.steps)
    assert held >= 17


def test_a_lost_block_is_told_when_it_is_neither_free_nor_listed() -> None:
    driver = Judged(engine(num_blocks=60))
    driver.core.add_request("a", prompt(40), 6)
    driver.core.scheduler.cache.pool.take(1)
    driver.run()
    assert driver.found[0].explanation == "1 block is neither free nor in any request's list after step 1"


def test_a_request_that_has_ended_may_hold_nothing() -> None:
    driver = Judged(engine(num_blocks=60))
    driver.core.add_request("a", prompt(40), 6)
    step = driver.schedule()
    late = msgspec.structs.replace(step, number=2, rows=(), new=(), cached=(), finished=("a",))
    driver.judge.scheduled(late)
    assert driver.found[0].explanation == "a holds 4 blocks after step 2 though it does not run"


def test_a_pool_that_is_too_small_starves_and_says_so() -> None:
    schedule = catalogue()["wild-leak"].schedule
    assert schedule is not None
    layout = msgspec.structs.replace(schedule.layout, num_blocks=12)
    outcome = resolve(()).run(msgspec.structs.replace(schedule, layout=layout), kernel_set("reference:req-idx"))
    assert [v.kind for v in outcome.violations] == ["starvation"]
    assert "11 of 11 blocks are free, too few for the first that waits" in outcome.violations[0].explanation
    assert outcome.stopped == "starved"


def test_a_request_that_preempts_itself_for_ever_is_a_loop() -> None:
    core = engine(groups=hybrid(4, recurrent=1), num_blocks=8, enable_prefix_caching=False, reserve_full_isl=False)
    core.add_request("a", prompt(12), 60)
    driver = Judged(core).run()
    loop = next(v for v in driver.found if v.kind == "preemption loop")
    assert f"preempted for the {MAX_FUTILE_PREEMPTIONS + 1}th time" in loop.explanation
    assert "leak" not in {v.kind for v in driver.found}


def test_preemption_with_progress_is_no_loop() -> None:
    core = engine("0.33", groups=hybrid(4), num_blocks=40, max_num_batched_tokens=200)
    for name, stream in (("a", 1), ("b", 2), ("c", 3)):
        core.add_request(name, prompt(12, stream), 40)
    driver = Judged(core).run()
    assert sum(bool(step.preempted) for step in driver.steps) >= 2
    assert driver.found == []
