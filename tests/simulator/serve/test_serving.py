"""Closed-loop runs: healthy kernels answer as alone at every pipeline size, batch-row kernels break requests."""

from __future__ import annotations

import os

import pytest
from small_serving import mixed_requests, small_requests, small_run


@pytest.mark.parametrize("profile", ["0.32", "0.33"])
def test_req_idx_answers_as_one_rank_does(profile: str) -> None:
    runs = [small_run("reference:req-idx", pp, profile=profile) for pp in (1, 2, 4)]
    assert all(run.clean for run in runs)
    assert len({run.outputs for run in runs}) == 1
    assert len({run.acceptance_length for run in runs}) == 1


def test_batch_row_is_healthy_on_one_rank() -> None:
    batch_row, req_idx = (small_run(f"reference:{name}", 1) for name in ("batch-row", "req-idx"))
    assert batch_row.clean
    assert (batch_row.digest, batch_row.memory) == (req_idx.digest, req_idx.memory)


@pytest.mark.parametrize("pp", [2, 4])
def test_batch_row_breaks_requests_behind_the_first_rank(pp: int) -> None:
    broken, healthy = (small_run(f"reference:{name}", pp) for name in ("batch-row", "req-idx"))
    assert broken.stuck > 0
    assert broken.acceptance_length < healthy.acceptance_length
    assert broken.request_throughput < healthy.request_throughput
    assert broken.output_tokens == healthy.output_tokens
    for request in broken.requests:
        assert request.differs == (0 <= request.damaged_at < request.output_len)
        assert request.finish == "length"


def test_a_request_alone_is_never_broken() -> None:
    assert small_run("reference:batch-row", 2, concurrency=1).clean


def test_broken_requests_miss_their_stop_and_run_to_the_cap() -> None:
    run = small_run("reference:batch-row", 2, requests=small_requests(ignore_eos=False, max_tokens=120))
    stuck = [r for r in run.requests if r.stuck]
    assert stuck
    assert all(r.output_len == 120 and r.finish == "length" for r in stuck)
    assert all(r.output_len == r.healthy_len and r.finish == "stop" for r in run.requests if not r.differs)
    assert run.output_tokens > run.healthy_tokens


def test_shared_prefixes_are_hit_and_dense_retention_keeps_more() -> None:
    runs = [small_run("reference:req-idx", 2, retention_interval=r) for r in (0, None)]
    assert all(run.clean and any(r.hit_tokens for r in run.requests) for run in runs)
    assert runs[0].cached_blocks < runs[1].cached_blocks


def test_poisoned_prefixes_break_the_requests_that_hit_them() -> None:
    broken, healthy = (small_run(f"reference:{k}", 2, requests=mixed_requests(16)) for k in ("batch-row", "req-idx"))
    assert broken.inherited > 0
    assert broken.poisoned_blocks > 0
    assert all(r.hit_tokens and r.damaged_at == 0 and r.stuck for r in broken.requests if r.inherited)
    assert healthy.clean


def test_small_pools_preempt_and_stay_correct() -> None:
    run = small_run("reference:req-idx", 2, num_gpu_blocks=70)
    assert run.clean
    assert run.preemptions
    assert run.outputs == small_run("reference:req-idx", 1).outputs


def test_same_settings_same_digest() -> None:
    first, second = (small_run("reference:batch-row", 2) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kernels", ["batch-row", "req-idx"])
def test_triton_kernels_give_the_digest_of_their_reference(kernels: str) -> None:
    requests = small_requests(num_prompts=3, output_len=12)
    runs = [small_run(k, 2, 3, "cpu", requests) for k in (kernels, f"reference:{kernels}")]
    assert runs[0].digest == runs[1].digest


@pytest.mark.gpu
@pytest.mark.parametrize("kernels", ["batch-row", "req-idx"])
def test_compiled_kernels_give_the_digest_of_their_reference(kernels: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("no CUDA device, or Triton interprets in this process")
    runs = [small_run(k, 2, device=d) for k, d in ((kernels, "cuda"), (f"reference:{kernels}", "auto"))]
    assert runs[0].digest == runs[1].digest


def test_synchronous_scheduling_and_no_drafts_run() -> None:
    assert small_run("reference:req-idx", 2, async_scheduling=False).clean


def test_an_engine_that_keeps_blocks_without_need_is_not_clean(monkeypatch) -> None:
    from stalerow.simulator.faults import resolve
    from stalerow.simulator.serve import serving

    leaking = resolve(["wild-leak"])
    core = serving.EngineCore
    monkeypatch.setattr(serving, "EngineCore", lambda config, profile: core(config, profile, leaking.policies()))
    broken = small_run("reference:req-idx", 2)
    assert broken.held.startswith("leak: ")
    assert not broken.clean
    monkeypatch.undo()
    assert small_run("reference:req-idx", 2).held == ""
