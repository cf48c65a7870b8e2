"""What the stand-in model and drafter say: the requests' true tokens, and the drafts that the schedule accepts."""

from __future__ import annotations

from stalerow.simulator.engine.step import Step
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.plan import Planner
from stalerow.simulator.truth.streams import FIRST_TOKEN, VOCABULARY


class Truth:
    """Tokens by request number (its place in the schedule), and drafts by step and request."""

    def __init__(self, schedule: Schedule, planner: Planner) -> None:
        self._schedule, self._planner = schedule, planner
        self.numbers = {request.id: i for i, request in enumerate(schedule.requests)}
        self._prefill: dict[str, int] = {}
        self._verified: dict[str, int] = {}
        self._verified_after: dict[tuple[int, str], int] = {}

    def token(self, number: int, index: int) -> int:
        return self.tokens(self._schedule.requests[number].id, index, index + 1)[0]

    def tokens(self, request: str, start: int, stop: int) -> list[int]:
        return self._planner.streams[request].slice(start, stop)

    def planned(self, step: Step) -> None:
        """Count the verification rows of a step that has just been planned."""
        for new in step.new:
            self._prefill[new.request] = len(new.prefill_token_ids)
        for row in step.rows:
            known = row.num_computed_tokens >= self._prefill[row.request]
            if row.num_drafts and row.is_final_or_decode and known:
                self._verified[row.request] = self._verified.get(row.request, 0) + 1
            self._verified_after[step.number, row.request] = self._verified.get(row.request, 0)

    def drafts(self, step: int, request: str) -> list[int]:
        """What the drafter proposes after a step: as many true tokens as will be accepted, then wrong ones."""
        row = self._planner.plans[step].rows[request]
        spec, count = self._planner.requests[request], self._schedule.pipeline.drafts
        accepted = spec.accepted[self._verified_after[step, request] % len(spec.accepted)]
        first = row.end + 1
        true = self.tokens(request, first, first + count)
        return [t if j < accepted else FIRST_TOKEN + (t - FIRST_TOKEN + 1) % VOCABULARY for j, t in enumerate(true)]
