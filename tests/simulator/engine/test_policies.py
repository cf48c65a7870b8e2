"""Policies: each replaceable decision is really asked, so that a fault is one overridden method."""

from itertools import pairwise

from engine_driver import Driver, hybrid, prompt

from stalerow.simulator.engine import EngineConfig, EngineCore, Policies, Step
from stalerow.simulator.engine.policies import (
    ChunkPolicy,
    DraftPolicy,
    FreePolicy,
    HashPolicy,
    PreemptionPolicy,
    RetentionPolicy,
    ReusePolicy,
    StalePolicy,
    ZeroingPolicy,
)


def run(policies: Policies | None = None, **options: object) -> list[Step]:
    config = EngineConfig(
        **({"groups": hybrid(8), "num_blocks": 80, "pipeline_parallel_size": 2, "num_speculative_tokens": 2} | options)
    )
    core = EngineCore(config, "0.32", policies)
    for index, length in enumerate((20, 33, 40)):
        core.add_request(f"r{index}", prompt(length, index), 20)
    return Driver(core, accept=lambda row: row.num_computed_tokens % 3).run().steps


def test_reuse_order():
    class OldestFirst(ReusePolicy):
        def put_back(self, queue, unhashed, hashed):
            queue.update(dict.fromkeys([*unhashed, *hashed]))

    assert run(Policies(reuse=OldestFirst())) != run()


def test_releasing_blocks():
    released = []

    class Recording(FreePolicy):
        def release(self, pool, blocks, request):
            released.append(request.id)
            super().release(pool, blocks, request)

    assert run(Policies(frees=Recording())) == run()
    assert set(released) == {"r0", "r1", "r2"}


def test_settled_tokens():
    class Optimistic(FreePolicy):
        def settled_tokens(self, num_computed_tokens, request):
            return num_computed_tokens

    assert run(Policies(frees=Optimistic())) != run()


def test_clip_grid():
    class SchedulerGrid(ChunkPolicy):
        def block_size(self, config):
            return config.scheduler_block_size

    groups = hybrid(8, attention_block_size=32)
    assert run(Policies(chunks=SchedulerGrid()), groups=groups) != run(groups=groups)
    assert run(Policies(chunks=SchedulerGrid())) == run()


def test_retention():
    class Everything(RetentionPolicy):
        def keep(self, start, end, block_size, interval, boundaries, alignment):
            return None

    assert run(Policies(retention=Everything())) != run()


def test_zeroing():
    class Nothing(ZeroingPolicy):
        def blocks_to_zero(self, attention, recurrent):
            return ()

    assert not any(step.zero for step in run(Policies(zeroing=Nothing())))


def test_lookahead_in_recurrent_groups():
    class WithLookahead(DraftPolicy):
        def recurrent_tokens(self, num_tokens, num_tokens_with_lookahead):
            return num_tokens_with_lookahead

    assert run(Policies(drafts=WithLookahead())) != run()


def test_decode_interval():
    class EveryStep(DraftPolicy):
        def decode_interval(self, config):
            return 1

    steps = run(Policies(drafts=EveryStep()))
    numbers = [step.number for step in steps for row in step.rows if row.request == "r0"]
    assert 1 in {later - earlier for earlier, later in pairwise(numbers[2:])}


CROWDED = {"groups": hybrid(4, recurrent=1), "num_blocks": 26}


def test_who_is_preempted():
    class FirstCome(PreemptionPolicy):
        def victim(self, running, config):
            return running[0]

    assert any(step.preempted for step in run(**CROWDED))
    assert run(Policies(preemption=FirstCome()), **CROWDED) != run(**CROWDED)


def test_when_a_preempted_request_may_come_back():
    class Never(StalePolicy):
        def may_resume(self, request):
            return request.num_preemptions == 0

    resumed = [new for step in run(**CROWDED) for new in step.new if new.resumed]
    assert resumed
    assert not any(new.resumed for step in run(Policies(stale=Never()), **CROWDED) for new in step.new)


def test_what_is_registered():
    class OneBlockLess(HashPolicy):
        def boundary(self, column, block_size):
            return max(column, 1) * block_size

    class Nothing(HashPolicy):
        def certain_tokens(self, num_scheduled, num_known):
            return 0

    def furthest(steps):
        return max(cached.num_tokens for step in steps for cached in step.hashed.values())

    assert furthest(run(Policies(hashes=OneBlockLess()))) < furthest(run())
    assert not any(step.hashed for step in run(Policies(hashes=Nothing()))[:3])
    assert any(step.hashed for step in run()[:3])


def test_which_states_are_retired():
    class All(FreePolicy):
        def retired_columns(self, num_settled_tokens, block_size):
            return 0

    def fewest_free(steps):
        return min(step.num_free_blocks for step in steps)

    assert fewest_free(run(Policies(frees=All()))) < fewest_free(run())


def test_which_blocks_move_behind_the_running_column():
    class None_(DraftPolicy):
        def relocated(self, length, running, num_speculative_blocks):
            return range(0)

    def repeated(steps):
        """Ids that a rank is told again, further right."""
        told = [ids for step in steps for new in step.new for ids in new.block_ids[:2]]
        more = [ids for step in steps for c in step.cached if c.new_block_ids for ids in c.new_block_ids[:2]]
        first = {block for ids in told for block in ids if block}
        return sum(block in first for ids in more for block in ids if block)

    assert run(Policies(drafts=None_())) != run()
    assert repeated(run()) > repeated(run(Policies(drafts=None_())))
