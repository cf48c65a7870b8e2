"""Situations that steps and outputs show are counted where they occur, and nowhere else."""

import msgspec

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Schedule

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
