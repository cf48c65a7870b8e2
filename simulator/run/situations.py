"""Marks that the engine's steps and outputs show: what a run has met of the situations that are worth testing.

In: every step with its plan, and what processing an output delivered. Out: counts in `Marks`. Situations that only a
rank or a kernel launch shows are counted by the oracle's judges.
"""

from __future__ import annotations

from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.violations import Marks
from stalerow.simulator.schedule.values import Request, Schedule
from stalerow.simulator.truth.plan import Planner, StepPlan


class Situations:
    """Counts for one run. `arrived` is told of every request that the engine has been given."""

    def __init__(self, schedule: Schedule, planner: Planner, marks: Marks) -> None:
        self._limits, self._planner, self._marks = schedule.limits, planner, marks
        self._pipeline = schedule.pipeline
        self._unfinished: set[str] = set()
        self._running: set[str] = set()
        self._since: dict[str, int] = {}
        self._prefilling: set[str] = set()
        self._block = schedule.layout.recurrent_block_size
        self._arrived: dict[str, int] = {}
        self._salts: dict[tuple[int, ...], set[str]] = {}

    def arrived(self, request: str) -> None:
        self._unfinished.add(request)
        self._arrived[request] = len(self._arrived)

    def reset(self, done: bool) -> None:
        """The prefix cache was asked to be reset, before the next step."""
        self._marks.add("prefix cache reset", done)
        self._marks.add("reset with requests running", done and len(self._running) > 0)

    def scheduled(self, step: Step, plan: StepPlan) -> None:
        marks = self._marks
        marks.add("preemption", len(step.preempted))
        marks.add("empty step", not step.rows)
        marks.add("drafts skipped", step.skip_drafts and len(step.rows) > 0)
        marks.add("mixed batch", len({row.is_final_or_decode for row in step.rows}) > 1)
        self._admissions(step)
        self._held_prefills(step)
        self._rows(step, plan)

    def _admissions(self, step: Step) -> None:
        self._unfinished.difference_update(step.finished)
        for request in (*step.preempted, *step.finished):
            self._running.discard(request)
        for gone in step.preempted:
            self._marks.add("preemption out of order", any(self._since[r] > self._since[gone] for r in self._running))
        self._overtaking(step)
        for new in step.new:
            self._running.add(new.request)
            self._since[new.request] = step.number
        most = self._limits.max_num_active_seqs
        held = most is not None and len(self._running) == most < min(len(self._unfinished), self._limits.max_num_seqs)
        self._marks.add("admission held by max_num_active_seqs", held)
        for new in step.new:
            self._first_block(self._planner.requests[new.request])

    def _overtaking(self, step: Step) -> None:
        """A request that has never run is admitted before one that came earlier and has never run either."""
        if not self._limits.cache_aware_admission_window:
            return
        waiting = [self._arrived[r] for r in self._unfinished if r not in self._since]
        for new in step.new:
            if new.request in self._since:
                continue
            place = self._arrived[new.request]
            waiting.remove(place)
            self._marks.add("cached prefix admitted first", any(earlier < place for earlier in waiting))

    def _held_prefills(self, step: Step) -> None:
        """A prompt that is not computed to its end waits for others' decodes."""
        scheduled = {row.request for row in step.rows}
        held = self._limits.prefill_schedule_interval > 1 and step.rows and self._prefilling - scheduled
        self._marks.add("prefill held back", bool(held))
        self._prefilling -= {*step.finished, *step.preempted}
        self._prefilling |= {row.request for row in step.rows if not row.is_final_or_decode}
        self._prefilling -= {row.request for row in step.rows if row.is_final_or_decode}

    def _first_block(self, request: Request) -> None:
        """Whether a request before this one began with the same block of tokens."""
        if request.prompt_len <= self._block:
            return
        salts = self._salts.setdefault(tuple(self._planner.prompt(request.id)[: self._block]), set())
        self._marks.add("equal prefix under another salt", bool(salts - {request.cache_salt}))
        skips = request.skip_reading_prefix_cache and request.cache_salt in salts
        self._marks.add("cache read skipped", skips)
        salts.add(request.cache_salt)

    def _rows(self, step: Step, plan: StepPlan) -> None:
        marks, threshold = self._marks, self._limits.long_prefill_token_threshold
        for row in plan.rows.values():
            spec = self._planner.requests[row.request]
            known = row.start + row.num_tokens - row.num_drafts
            marks.add("chunked prefill", not row.num_sampled and row.start > 0)
            marks.add("drafts rejected", row.num_rejected > 0)
            marks.add("all drafts accepted", row.num_drafts > 0 and not row.num_rejected)
            marks.add("overshooting decode", known >= spec.prompt_len + (spec.stop or spec.max_tokens))
            cut = not row.num_sampled and row.num_tokens <= threshold and len(step.rows) > 1
            marks.add("chunk cut by the threshold", cut)
            share = 0 < threshold < row.num_tokens - row.num_drafts and len(step.rows) > 1
            marks.add("chunk of a fair share", share and self._limits.long_prefill_token_threshold_adaptive)
            fewer = row.is_spec and row.num_drafts < self._pipeline.drafts
            marks.add("fewer drafts in a larger batch", fewer and len(self._pipeline.drafts_per_batch_size) > 0)
            marks.add("drafts without lookahead", row.num_drafts > 0 and self._pipeline.drafter == "ngram")
            marks.add("one-token prompt padded", row.num_drafts > 0 and not row.start)
            crossed = row.boundary is not None and row.boundary.moves
            marks.add("boundary crossed by accepted drafts", crossed)

    def delivered(self, delivered: Delivered) -> None:
        stops = sum(reason == "stop" for _, reason in delivered.outputs.values())
        self._marks.add("stop token", stops)
