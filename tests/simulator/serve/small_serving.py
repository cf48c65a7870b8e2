"""A small serving run for the tests: two-block prompts, blocks of 16 tokens, seconds of work at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.serve.acceptance import from_mean
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.serve.report import RunResult, summarise
from stalerow.simulator.serve.serving import Serving
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.serve.workload import RandomDataset, ServeRequest

SEED = 7


def small_requests(**dataset: Any) -> tuple[ServeRequest, ...]:
    """Ten prompts of a few blocks with a shared prefix of two; `dataset` says what differs."""
    shape: dict[str, Any] = {"num_prompts": 10, "input_len": 40, "output_len": 40, "prefix_len": 36, "ignore_eos": True}
    return RandomDataset(**shape | {"seed": SEED} | dataset).requests()


def mixed_requests(count: int) -> tuple[ServeRequest, ...]:
    """Requests with a shared prefix of two blocks, in turn with short ones that cross the same boundaries alone."""
    return tuple(
        ServeRequest(
            id=f"q{i}",
            index=i,
            arrival=0,
            prompt_len=6 + i % 4 if i % 2 else 40 + i % 5,
            prefix_id=0,
            prefix_len=0 if i % 2 else 36,
            output_len=40,
            max_tokens=40,
            stops=False,
        )
        for i in range(count)
    )


def small_run(
    kernels: str,
    pp: int,
    concurrency: int = 4,
    device: str = "auto",
    requests: Sequence[ServeRequest] | None = None,
    **options: Any,
) -> RunResult:
    """One run with small blocks; `options` go to the engine."""
    requests = requests or small_requests()
    settings = {"block_size": 16, "num_gpu_blocks": 400, "max_num_seqs": 8, "max_num_batched_tokens": 128} | options
    serving = Serving(
        requests,
        ServeOptions(pipeline_parallel_size=pp, **settings),
        kernel_set(kernels, device),
        from_mean(4.0, 4),
        Costs(),
        concurrency,
        SEED,
    )
    serving.run()
    return summarise(serving, concurrency, SEED)
