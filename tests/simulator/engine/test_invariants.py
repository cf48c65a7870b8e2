"""What must hold after every event of any run: ownership of blocks, counters, immutability, determinism."""

from __future__ import annotations

from collections import Counter

from engine_driver import Driver, hybrid
from hypothesis import given, settings
from hypothesis import strategies as st

from stalerow.simulator.engine import EngineConfig, EngineCore, GroupConfig

EVENTS = ("schedule", "process", "advance", "arrive", "abort")


@st.composite
def configs(draw) -> EngineConfig:
    size = draw(st.sampled_from((4, 8)))
    drafts = draw(st.integers(0, 3))
    groups = hybrid(size, draw(st.integers(1, 2)), draw(st.sampled_from((size, 2 * size))))
    asynchronous = draw(st.booleans())
    smallest = EngineConfig(groups, 1000, num_speculative_tokens=drafts).min_blocks_per_request
    return EngineConfig(
        groups=groups,
        num_blocks=1 + smallest + draw(st.integers(0, 40)),
        pipeline_parallel_size=draw(st.integers(1, 4)),
        num_speculative_tokens=drafts,
        max_num_seqs=draw(st.integers(1, 4)),
        max_num_batched_tokens=draw(st.sampled_from((8, 20, 64))),
        max_model_len=draw(st.sampled_from((32, 80))),
        prefix_match_unit=draw(st.sampled_from((None, size // 2))),
        retention_interval=draw(st.sampled_from((0, None, 4 * size))),
        long_prefill_token_threshold=draw(st.sampled_from((0, 6))),
        async_scheduling=asynchronous,
        reserve_full_isl=draw(st.booleans()),
        watermark=draw(st.sampled_from((0.0, 0.1))),
        shared_prefix_checkpoint=draw(st.booleans()),
        drop_draft_block=draw(st.booleans()),
        lookahead_hashes=draw(st.booleans()),
    )


EVENT_LISTS = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 2**16)), min_size=5, max_size=60)


class Run(Driver):
    """Applies events where they are possible; the number of an event decides its details."""

    def __init__(self, config: EngineConfig, release: str) -> None:
        super().__init__(EngineCore(config, release), accept=lambda row: (row.num_computed_tokens * 7) % 4)
        self.arrivals = 0

    def apply(self, event: str, number: int) -> None:
        if event == "schedule" and self.core.can_schedule:
            self.schedule()
        elif event == "process" and self.core.inflight:
            self.process()
        elif event == "advance":
            self.advance()
        elif event == "arrive":
            self.arrive(number)
        elif event == "abort" and (live := self.core.running + self.core.waiting):
            self.core.abort([live[number % len(live)]])

    def arrive(self, number: int) -> None:
        length = 1 + number % (self.core.config.max_model_len - 1)
        stream, own = number % 3, number % 5 * 7
        tokens = [stream if index < own else 10 + self.arrivals for index in range(length)]
        self.core.add_request(f"r{self.arrivals}", tokens, 1 + number % 17)
        self.arrivals += 1

    def check(self) -> None:
        self.check_blocks()
        self.check_sharing()
        self.check_counters()

    def check_blocks(self) -> None:
        pool = self.core.scheduler.cache.pool
        held = Counter(block for lists in self.core.block_lists().values() for blocks in lists for block in blocks)
        del held[0]
        free = pool.free_queue
        assert 0 not in free
        assert len(free) == len(set(free)) == self.core.num_free_blocks
        assert held.keys().isdisjoint(free)
        assert len(held) + len(free) == self.core.config.num_blocks - 1
        assert all(pool.ref_count(block) == count for block, count in held.items())
        assert 0 not in pool.cached_blocks()

    def check_sharing(self) -> None:
        """A block in two lists is in the same group and column of both, with equal tokens up to its end."""
        config = self.core.config
        first: dict[int, tuple[str, int, int]] = {}
        for request, lists in self.core.block_lists().items():
            for group, blocks in enumerate(lists):
                for column, block in enumerate(blocks):
                    if block == 0:
                        continue
                    other, *place = first.setdefault(block, (request, group, column))
                    assert [group, column] == place
                    boundary = (column + 1) * config.groups[group].block_size
                    if other != request:
                        one, two = self.core.token_ids(other), self.core.token_ids(request)
                        assert one[:boundary] == two[:boundary]

    def check_counters(self) -> None:
        in_flight: Counter[str] = Counter()
        for step in self.core.inflight_steps:
            in_flight.update({row.request: row.num_tokens for row in step.rows})
        for request in self.core.scheduler.requests.values():
            assert 0 <= request.num_stale_output_tokens <= request.num_in_flight_tokens <= in_flight[request.id]
            assert 0 <= request.num_computed_tokens < self.core.config.max_model_len
            assert request.num_output_placeholders >= 0
        assert len(self.core.running) <= self.core.config.max_num_seqs


@settings(max_examples=150, deadline=None)
@given(configs(), st.sampled_from(("0.32", "0.33")), EVENT_LISTS)
def test_invariants_hold_after_every_event(config, release, events):
    run = Run(config, release)
    for event, number in events:
        run.apply(event, number)
        run.check()
    for step in run.steps:
        assert sum(row.num_tokens for row in step.rows) <= config.max_num_batched_tokens
        assert len({row.request for row in step.rows}) == len(step.rows)
        assert {row.request for row in step.rows} == {item.request for item in (*step.new, *step.cached)}


@settings(max_examples=60, deadline=None)
@given(configs(), st.sampled_from(("0.32", "0.33")), EVENT_LISTS)
def test_the_same_events_give_the_same_steps(config, release, events):
    first, second = Run(config, release), Run(config, release)
    for run in (first, second):
        for event, number in events:
            run.apply(event, number)
    assert first.steps == second.steps
    assert first.delivered == second.delivered


@settings(max_examples=60, deadline=None)
@given(configs(), st.sampled_from(("0.32", "0.33")), EVENT_LISTS)
def test_an_engine_that_comes_to_rest_owns_no_blocks(config, release, events):
    run = Run(config, release)
    for event, number in events:
        run.apply(event, number)
    run.core.abort(run.core.running + run.core.waiting)
    run.run()
    assert run.core.idle
    assert run.core.num_free_blocks == config.num_blocks - 1
    assert not run.core.block_lists()


@settings(max_examples=60, deadline=None)
@given(configs(), EVENT_LISTS)
def test_snapshots_of_past_steps_never_change(config, events):
    run = Run(config, "0.33")
    copies = []
    for event, number in events:
        run.apply(event, number)
        for step in run.steps[len(copies) :]:
            copies.append((dict(step.block_lists), dict(step.hashed)))
    assert [(dict(step.block_lists), dict(step.hashed)) for step in run.steps] == copies


def test_the_groups_of_the_strategy_are_mixed():
    assert hybrid(4, 2, 8) == (
        GroupConfig("recurrent", 4),
        GroupConfig("recurrent", 4),
        GroupConfig("attention", 8, draft=True),
    )
