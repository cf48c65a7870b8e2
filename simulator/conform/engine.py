"""A released scheduler as the engine of a run: it makes the steps, the simulator's ranks and kernels run them.

`ReleasedEngines` keeps the child process, started once for any number of runs, and makes an engine for a schedule;
pass it to `run` as `engine`. In: schedules, arrivals, aborts, sampled tokens. Out: the same `Step`s that `EngineCore`
makes, as the installed vLLM decides them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stalerow.simulator.conform.child import Child
from stalerow.simulator.conform.trace import ScheduleRecord
from stalerow.simulator.conform.wire import to_step
from stalerow.simulator.engine import profile as find_profile
from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.request import PLAIN, RequestOptions
from stalerow.simulator.engine.step import CachedBlock, Step
from stalerow.simulator.errors import InternalError, UsageError


class ReleasedEngines(Child):
    """Makes engines of an installed release, one at a time; use as a context manager."""

    script = "driver_steps.py"

    @property
    def profile(self) -> str:
        """The profile of the installed release. Raises ValueError if there is none."""
        return find_profile(self.version).name

    def __call__(self, config: EngineConfig) -> ReleasedEngine:
        """An engine for a run; the one made before is gone. Raises `UsageError` for options that are not mapped."""
        meta = self.ask({"open": released_options(config)})["meta"]
        for name in ("scheduler_block_size", "hash_block_size"):
            if meta[name] != getattr(config, name):
                raise InternalError(f"vLLM {self.version} takes {name} {meta[name]}, we {getattr(config, name)}")
        return ReleasedEngine(self, config)


def released_options(config: EngineConfig) -> dict[str, Any]:
    """Our options in the driver's names. Raises `UsageError` for what it cannot set."""
    if not config.enable_prefix_caching:
        raise UsageError("limits.prefix_caching is false: the installed scheduler needs it; set it true")
    attention = {g.block_size for g in config.groups if g.kind == "attention"}
    if len(attention) > 1:
        sizes = sorted(attention)
        raise UsageError(f"attention groups with block sizes {sizes}: one size is mapped; make them equal")
    if any(g.window for g in config.groups):
        raise UsageError("a sliding-window group: not mapped to an installed scheduler that serves ranks; leave it out")
    if not config.recurrent_block_size:
        raise UsageError("no recurrent group: the installed scheduler is set up as a hybrid model's; add one")
    labels = sorted({g.spec for g in config.groups if g.kind == "recurrent"})
    return {
        "P": config.pipeline_parallel_size,
        "K": config.num_speculative_tokens,
        "drafter": config.drafter,
        "drafts_per_batch_size": config.num_speculative_tokens_per_batch_size,
        "block_size": config.recurrent_block_size,
        "attention_block_size": next(iter(attention), None),
        "groups": [(g.kind, g.block_size, labels.index(g.spec) if g.kind == "recurrent" else 0) for g in config.groups],
        "num_blocks": config.num_blocks,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "max_model_len": config.max_model_len,
        "prefix_match_unit": config.prefix_match_unit,
        "retention_interval": config.retention_interval,
        "long_prefill_token_threshold": config.long_prefill_token_threshold,
        "long_prefill_token_threshold_adaptive": config.long_prefill_token_threshold_adaptive,
        "max_num_active_seqs": config.max_num_active_seqs,
        "prefill_schedule_interval": config.prefill_schedule_interval,
        "cache_aware_admission_window": config.cache_aware_admission_window,
        "cache_aware_admission_threshold": config.cache_aware_admission_threshold,
        "reserve_full_isl": config.reserve_full_isl,
        "watermark": config.watermark,
        "policy": config.policy,
        "shared_prefix_ckpt": config.shared_prefix_checkpoint,
        "disable_eagle_block_drop": not config.drop_draft_block,
        "lookahead_hashes": config.lookahead_hashes,
        "num_prefill_checkpoint_blocks": int(config.prefill_checkpoint_alignment is not None),
        "prefill_checkpoint_alignment": config.prefill_checkpoint_alignment,
        "asynchronous": config.async_scheduling,
    }


class ReleasedEngine:
    """Speaks to the scheduler in the child as `EngineCore` does to ours; the FIFO of steps in flight is kept here."""

    def __init__(self, child: Child, config: EngineConfig) -> None:
        self._child = child
        self._config = config
        self._fifo: deque[Step] = deque()
        self._max_tokens: dict[str, int] = {}
        self._futile = False
        self._has_requests = False

    @property
    def has_requests(self) -> bool:
        return self._has_requests

    @property
    def can_schedule(self) -> bool:
        return len(self._fifo) < self._config.max_inflight_steps and self._has_requests

    @property
    def inflight(self) -> tuple[int, ...]:
        return tuple(step.number for step in self._fifo)

    @property
    def inflight_steps(self) -> tuple[Step, ...]:
        return tuple(self._fifo)

    @property
    def starved(self) -> bool:
        return self._futile and all(not step.rows for step in self._fifo)

    def _call(self, name: str, argument: Any) -> dict[str, Any]:
        answer = self._child.ask({name: argument})
        self._has_requests = answer["has_requests"]
        return answer

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        max_tokens: int,
        stop_token_ids: Collection[int] = (),
        options: RequestOptions = PLAIN,
    ) -> None:
        self._max_tokens[request_id] = max_tokens
        self._futile = False
        request = {"prompt": list(prompt_token_ids), "max_tokens": max_tokens, "stop": list(stop_token_ids)}
        self._call("add", {"id": request_id, **request, "options": msgspec.to_builtins(options)})

    def abort(self, request_ids: Iterable[str]) -> tuple[str, ...]:
        aborted = self._call("abort", list(request_ids))["aborted"]
        self._futile &= not aborted
        return tuple(aborted)

    def reset_prefix_cache(self, reset_running_requests: bool) -> bool:
        self._futile = False
        return bool(self._call("reset", reset_running_requests)["done"])

    def schedule(self) -> Step:
        answer = self._call("schedule", None)
        self._futile = answer["futile"]
        step = to_step(
            msgspec.convert(answer["record"], ScheduleRecord),
            answer["prefill"],
            self._max_tokens,
            {block: CachedBlock(*entry) for block, *entry in answer["hashed"]},
        )
        self._fifo.append(step)
        return step

    def process(self, sampled: Mapping[str, Sequence[int]]) -> Delivered:
        step = self._fifo.popleft()
        self._futile &= not step.rows
        answer = self._call("process", {key: list(tokens) for key, tokens in sampled.items()})
        outputs = {key: (count, reason) for key, (count, reason) in answer["delivered"].items()}
        return Delivered(step.number, outputs, tuple(answer["ignored"]))
