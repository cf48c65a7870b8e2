"""Situations that steps and outputs show are counted where they occur, and nowhere else."""

import msgspec
import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.engine import scheduler
from stalerow.simulator.engine.hashing import PrefixHasher
from stalerow.simulator.engine.policies import DraftPolicy, Policies
from stalerow.simulator.engine.request import PLAIN
from stalerow.simulator.engine.request import Request as Request_
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Reset, Schedule

REFERENCE = kernel_set("reference:req-idx")
LAYOUT = msgspec.structs.replace(from_seed(0).layout, num_drafts=1, num_blocks=120)


def schedule(*requests: Request, pp: int = 2, **limits: object) -> Schedule:
    return Schedule(
        pipeline=Pipeline(pp=pp, drafts=1, profile="0.34"),
        layout=LAYOUT,
        limits=Limits(**limits),  # type: ignore[arg-type]
        requests=requests,
    )


def request(name: str, prompt_len: int = 20, **fields: object) -> Request:
    fields = {"max_tokens": 6, "stream": sum(map(ord, name))} | fields
    return Request(id=name, prompt_len=prompt_len, **fields)  # type: ignore[arg-type]


def marks(made: Schedule) -> dict[str, int]:
    outcome = run(made, REFERENCE)
    assert outcome.violations == ()
    return outcome.marks


def test_an_admission_that_waits_for_an_active_request_is_counted():
    both = (request("a"), request("b"))
    assert marks(schedule(*both, max_num_active_seqs=1))["admission held by max_num_active_seqs"]
    assert "admission held by max_num_active_seqs" not in marks(schedule(*both))
    assert "admission held by max_num_active_seqs" not in marks(schedule(both[0], max_num_active_seqs=1))


def test_a_chunk_of_a_fair_share_is_one_that_the_fixed_threshold_would_have_cut():
    both = (request("a", 40), request("b", 40))
    fair = {"long_prefill_token_threshold": 8, "long_prefill_token_threshold_adaptive": True}
    assert marks(schedule(*both, **fair))["chunk of a fair share"]
    assert "chunk of a fair share" not in marks(schedule(*both, long_prefill_token_threshold=8))


def test_an_equal_prefix_under_another_salt_is_counted_and_not_hit():
    same, salted = request("b", 40, arrival=9, stream=1), request("b", 40, arrival=9, stream=1, cache_salt="x")
    first = request("a", 40, stream=1)
    assert "prefix hit" in marks(schedule(first, same))
    met = marks(schedule(first, salted))
    assert met["equal prefix under another salt"] == 1
    assert "prefix hit" not in met


def test_a_skipped_cache_read_is_counted_where_there_is_something_to_read():
    first, skips = request("a", 40, stream=1), {"arrival": 9, "skip_reading_prefix_cache": True}
    met = marks(schedule(first, request("b", 40, stream=1, **skips)))
    assert met["cache read skipped"] == 1
    assert "prefix hit" not in met
    assert "cache read skipped" not in marks(schedule(first, request("b", 40, stream=2, **skips)))


def test_a_hash_that_forgets_the_salt_is_caught():
    """Two adapters' states differ, so an engine that mixes them up hands out a foreign state."""

    class Unsalted(PrefixHasher):
        def extend(self, request: Request_) -> None:
            request.options = PLAIN
            super().extend(request)

    made = schedule(request("a", 40, stream=1), request("b", 40, arrival=9, stream=1, cache_salt="x"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "PrefixHasher", Unsalted)
        found = run(made, REFERENCE).violations
    assert found
    assert found[0].request == "b"


def test_a_preemption_out_of_order_is_one_that_leaves_a_later_request_running():
    crowd = [request(f"r{i}", 12, arrival=1 + i, max_tokens=30, priority=3 - i) for i in range(4)]
    small = msgspec.structs.replace(LAYOUT, num_blocks=30)
    ordered = msgspec.structs.replace(schedule(*crowd), layout=small)
    by_priority = msgspec.structs.replace(schedule(*crowd, policy="priority"), layout=small)
    assert marks(by_priority)["preemption out of order"]
    met = marks(ordered)
    assert met["preemption"]
    assert "preemption out of order" not in met


def test_a_prompt_that_waits_for_others_decodes_is_counted():
    both = (request("a", 6, max_tokens=30), request("b", 60, arrival=4))
    held = {"prefill_schedule_interval": 3, "max_num_batched_tokens": 20}
    assert marks(schedule(*both, **held))["prefill held back"]
    assert "prefill held back" not in marks(schedule(*both, max_num_batched_tokens=20))


def test_resets_are_counted_apart_from_those_that_preempt():
    both = (request("a", 40), request("b", 40))
    made = schedule(*both)
    met = marks(msgspec.structs.replace(made, resets=(Reset(step=4),)))
    assert (met["prefix cache reset"], met["reset with requests running"]) == (1, 1)
    assert "prefix cache reset" not in marks(msgspec.structs.replace(made, resets=(Reset(step=4, running=False),)))
    assert "prefix cache reset" not in marks(made)


def with_pipeline(made: Schedule, **fields: object) -> Schedule:
    return msgspec.structs.replace(made, pipeline=msgspec.structs.replace(made.pipeline, **fields))


def test_a_decode_with_fewer_drafts_than_there_could_be_is_counted_where_batches_decide():
    made = schedule(request("a", 9, max_tokens=20), request("b", 9, max_tokens=20), pp=1)
    met = marks(with_pipeline(made, drafts_per_batch_size=((1, 1, 1), (2, 64, 0))))
    assert met["fewer drafts in a larger batch"]
    assert "fewer drafts in a larger batch" not in marks(made)


def test_drafts_that_were_looked_up_are_counted():
    made = schedule(request("a", 9, max_tokens=20))
    assert marks(with_pipeline(made, drafter="ngram"))["drafts without lookahead"]
    assert "drafts without lookahead" not in marks(made)


def test_a_step_after_which_nobody_needs_drafts_is_counted():
    assert marks(schedule(request("a", 40), max_num_batched_tokens=16))["drafts skipped"] > 2
    older = with_pipeline(schedule(request("a", 40), max_num_batched_tokens=16), profile="0.32")
    assert "drafts skipped" not in marks(older)


def test_an_engine_that_verifies_drafts_that_nobody_proposed_breaks_a_rule():
    class Never(DraftPolicy):
        def unused(self, request: Request_, num_tokens: int) -> bool:
            return True

    (found,) = run(schedule(request("a")), REFERENCE, policies=Policies(drafts=Never())).violations
    assert found.kind == "broken rule"
    assert "had none proposed" in found.explanation


def test_a_cached_prefix_that_goes_first_is_counted():
    crowd = (request("a", 40, stream=1), request("b", 40, arrival=2, stream=2), request("c", 40, arrival=3, stream=1))
    warm = {"cache_aware_admission_window": 4, "cache_aware_admission_threshold": 0.0, "max_num_seqs": 1}
    assert marks(schedule(*crowd, retention_interval=None, **warm))["cached prefix admitted first"] == 1
    met = marks(schedule(*crowd, retention_interval=None, max_num_seqs=1))
    assert "cached prefix admitted first" not in met


def test_a_prompt_of_one_token_that_joins_decodes_is_counted_where_it_is_padded():
    late, name = request("b", 1, arrival=4), "one-token prompt padded"
    assert marks(schedule(request("a", 6, max_tokens=20), late, pp=1))[name] == 1
    assert name not in marks(schedule(request("a", 6, max_tokens=20), request("b", 2, arrival=4), pp=1))
    assert name not in marks(schedule(late, pp=1))
