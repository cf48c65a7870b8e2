"""What a step's output changes: tokens delivered, drafts rolled back, blocks hashed, requests finished.

Called by `EngineCore.process`. In: the step and what its last rank sampled. Out: what the clients get. Public source:
vLLM's update_from_output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stalerow.simulator.engine.config import misfit
from stalerow.simulator.engine.profiles import Profile
from stalerow.simulator.engine.request import Request, Status
from stalerow.simulator.engine.scheduler import Scheduler
from stalerow.simulator.engine.step import Step

FINISH_REASONS = {Status.FINISHED_LENGTH_CAPPED: "length", Status.FINISHED_STOPPED: "stop"}


class Outputs:
    """Processes outputs in the order of their steps."""

    def __init__(self, scheduler: Scheduler, profile: Profile) -> None:
        self._scheduler = scheduler
        self._config = scheduler.config
        self._profile = profile

    def update(
        self, step: Step, sampled: Mapping[str, Sequence[int]]
    ) -> tuple[dict[str, tuple[int, str | None]], tuple[str, ...]]:
        """Apply a step's output; returns (count, finish reason) per request, and the rows ignored."""
        outputs: dict[str, tuple[int, str | None]] = {}
        ignored = []
        _check_sampled(step, sampled)
        if step.rows:
            self._scheduler.last_step_was_futile = False
        for row in step.rows:
            request = self._scheduler.requests.get(row.request)
            if request is None:
                ignored.append(row.request)
                continue
            request.num_in_flight_tokens -= row.num_tokens
            stale = request.num_stale_output_tokens > 0
            if stale:
                request.num_stale_output_tokens -= row.num_tokens
            tokens = sampled.get(row.request, ())
            if stale and request.drops_stale_output:
                # Drafts come apart from the output, so those of a dropped one are taken all the same.
                if tokens and request.status is Status.RUNNING:
                    self._take_drafts(request, len(step.rows))
                continue
            if not tokens:
                continue
            if row.num_drafts and not stale:
                self._roll_back(request, row.num_drafts - (len(tokens) - 1))
            outputs[row.request] = self._deliver(request, tokens, stale, len(step.rows))
        return outputs, tuple(ignored)

    def _roll_back(self, request: Request, num_rejected: int) -> None:
        if request.num_computed_tokens > 0:
            request.num_computed_tokens -= num_rejected
        if request.num_output_placeholders > 0:
            request.num_output_placeholders -= num_rejected

    def _deliver(self, request: Request, tokens: Sequence[int], stale: bool, num_rows: int) -> tuple[int, str | None]:
        """Append tokens up to the request's end, settle counters, hash what is certain, finish if due."""
        was_running = request.status is Status.RUNNING
        had_placeholders = request.num_output_placeholders > 0
        finish: Status | None = None
        count = 0
        for token in tokens:
            request.token_ids.append(token)
            count += 1
            finish = self._finish_status(request, token)
            if finish is not None:
                break
        if self._config.enable_prefix_caching:
            self._scheduler.hasher.extend(request)
        if not stale:
            self._settle(request, count, len(tokens), had_placeholders)
            if was_running and self._caches_on_output(had_placeholders):
                self._scheduler.cache.cache_blocks(request, self._settled_tokens(request))
        if finish is None:
            if was_running and not stale:
                self._take_drafts(request, num_rows)
            return count, None
        (self._scheduler.running if was_running else self._scheduler.waiting).remove(request)
        self._scheduler.finish(request, finish)
        return count, FINISH_REASONS[finish]

    def _take_drafts(self, request: Request, num_rows: int) -> None:
        """A synchronous engine learns a step's drafts after its output; an asynchronous one never does."""
        if not self._config.async_scheduling and not request.is_prefill_chunk:
            request.num_spec_tokens = self._scheduler.policies.drafts.placeholders(self._config, num_rows)

    def _finish_status(self, request: Request, token: int) -> Status | None:
        if token in request.stop_token_ids:
            return Status.FINISHED_STOPPED
        if request.num_tokens >= self._config.max_model_len or request.num_output_tokens >= request.max_tokens:
            return Status.FINISHED_LENGTH_CAPPED
        return None

    def _settle(self, request: Request, num_kept: int, num_returned: int, had_placeholders: bool) -> None:
        if self._profile.resolves_trimmed_tokens:
            request.num_computed_tokens -= num_returned - num_kept
            num_kept = num_returned
        if had_placeholders:
            request.num_output_placeholders -= num_kept

    def _caches_on_output(self, had_placeholders: bool) -> bool:
        if not self._profile.caches_settled_tokens:
            return self._config.async_scheduling
        if had_placeholders or self._config.num_speculative_tokens > 0:
            return True
        return (
            self._profile.caches_synchronous_outputs
            and self._scheduler.aligns_chunks
            and not self._config.async_scheduling
        )

    def _settled_tokens(self, request: Request) -> int:
        if self._profile.caches_settled_tokens:
            return request.num_computed_tokens - request.num_in_flight_tokens
        return request.num_computed_tokens - request.num_output_placeholders


def _check_sampled(step: Step, sampled: Mapping[str, Sequence[int]]) -> None:
    most = {row.request: 1 + row.num_drafts for row in step.rows if row.is_final_or_decode}
    for request_id, tokens in sampled.items():
        if len(tokens) > most.get(request_id, 0):
            raise misfit(
                f"{len(tokens)} tokens sampled for request {request_id!r} in step {step.number}",
                f"at most {most.get(request_id, 0)}",
                "return one token and the accepted drafts for rows that sample",
            )
