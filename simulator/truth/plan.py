"""The plan: what every row of every step means for its request, in the request's own numbers.

Made when the engine schedules a step, from the step's rows and the schedule's acceptance of drafts. The ranks' kernels
find the same numbers from slots and tables; the oracle compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.simulator.engine.step import ScheduledRow, Step
from stalerow.simulator.errors import BrokenRule
from stalerow.simulator.schedule.values import Request
from stalerow.simulator.truth.model import Sampled
from stalerow.simulator.truth.streams import TokenStream, junk_hash

KEPT_TABLES = 8


@dataclass(slots=True)
class PlanRow:
    """One request's share of one step. Counts are tokens; `start` is the true num_computed_tokens before the step.

    What follows from the rest is worked out once, since the oracle asks for it after every launch: `end` is the true
    num_computed_tokens once the output is known, `column` the running column during the step, drafts counted, and
    `boundary` the postprocess copy that this row's output asks for (DOMAIN: postprocess), or None. `accepted_after` is
    num_accepted once postprocess has run: 1 where the boundary's column is the running one. `accepted_in_forward` is
    what the forward reads: 1 when preprocess moved the running column.
    """

    request: str
    incarnation: int
    step: int
    start: int
    num_tokens: int
    num_drafts: int
    is_spec: bool
    first_after_hit: bool
    num_sampled: int
    needs_output: bool
    previous: PlanRow | None
    seed_column: int
    block_size: int

    num_rejected: int = field(init=False)
    end: int = field(init=False)
    column: int = field(init=False)
    column_before: int = field(init=False)
    boundary: BoundaryCopy | None = field(init=False)
    accepted_after: int = field(init=False)
    accepted_before: int = field(init=False)
    accepted_in_forward: int = field(init=False)

    def __post_init__(self) -> None:
        size, previous, accepted = self.block_size, self.previous, max(self.num_sampled, 1)
        self.num_rejected = max(self.num_drafts + 1 - self.num_sampled, 0) if self.num_sampled else 0
        self.end = self.start + self.num_tokens - self.num_rejected
        self.column = -(-(self.start + self.num_tokens) // size) - 1
        self.boundary = boundary_copy(self.end, accepted, self.column, size)
        in_place = self.boundary is not None and self.boundary.source == self.boundary.target
        self.accepted_after = 1 if in_place else accepted
        self.column_before = previous.column if previous else self.seed_column
        self.accepted_before = previous.accepted_after if previous else 1
        moved = self.column_before >= 0 and self.column_before != self.column
        self.accepted_in_forward = 1 if moved else self.accepted_before


class BoundaryCopy(msgspec.Struct, frozen=True, gc=False):
    """State at column `source` shifted by `bias` accepted tokens is saved at column `target`."""

    source: int
    bias: int
    target: int

    @property
    def moves(self) -> bool:
        return self.source != self.target or self.bias > 0


def boundary_copy(end: int, accepted: int, column: int, block_size: int) -> BoundaryCopy | None:
    """The copy for `accepted` tokens up to `end`, if a multiple of the block size lies among them."""
    first, aligned = end - accepted + 1, end // block_size * block_size
    if aligned < first:
        return None
    return BoundaryCopy(column, aligned - first, aligned // block_size - 1)


@dataclass(slots=True)
class _Progress:
    incarnation: int = 0
    base: int = 0
    last: PlanRow | None = None
    prefill_len: int = 0
    verified: int = 0
    fresh: bool = True


@dataclass(slots=True)
class StepPlan:
    """The rows of a step by request, and what the sampler will return for each (token ids)."""

    step: Step
    rows: dict[str, PlanRow] = field(default_factory=dict)
    sampled: dict[str, list[int]] = field(default_factory=dict)


class Planner:
    """Keeps every request's progress and turns steps into plans. `block_size` is the recurrent groups', in tokens."""

    def __init__(self, requests: Iterable[Request], block_size: int, num_drafts: int) -> None:
        self.requests = {r.id: r for r in requests}
        self.streams = {r.id: TokenStream(r) for r in self.requests.values()}
        self._block_size = block_size
        self._num_drafts = num_drafts
        self._progress = {r: _Progress() for r in self.requests}
        self.plans: dict[int, StepPlan] = {}
        self.verified: list[tuple[str, int]] = []
        """Verification steps so far, as (request, drafts), in the order in which they were scheduled."""
        self._tables: dict[tuple[int, tuple[str, ...], int], np.ndarray] = {}

    def prompt(self, request: str) -> list[int]:
        return self.streams[request].slice(0, self.requests[request].prompt_len)

    def stop_tokens(self, request: str) -> list[int]:
        """The token that ends the request early, if it has one."""
        made = self.requests[request]
        last = made.prompt_len + made.stop
        return self.streams[request].slice(last - 1, last) if made.stop else []

    def plan(self, step: Step) -> StepPlan:
        """Plan a newly scheduled step. Raises `BrokenRule` if the engine replays tokens it was never given."""
        plan = StepPlan(step)
        for new in step.new:
            known = self.streams[new.request].slice(0, len(new.prefill_token_ids))
            if list(new.prefill_token_ids) != known:
                raise BrokenRule(f"step {step.number}: the engine prefills {new.request} with foreign tokens")
            old = self._progress[new.request]
            self._progress[new.request] = _Progress(
                old.incarnation + 1, new.num_computed_tokens, None, len(known), old.verified
            )
        for row in step.rows:
            plan.rows[row.request] = made = self._row(step, row.request, row)
            first = made.start + made.num_tokens - made.num_drafts
            plan.sampled[row.request] = self.streams[row.request].slice(first, first + made.num_sampled)
        self.plans[step.number] = plan
        return plan

    def _row(self, step: Step, request: str, row) -> PlanRow:
        progress, spec = self._progress[request], self.requests[request]
        start = progress.last.end if progress.last else progress.base
        sent = min(row.num_computed_tokens, progress.prefill_len)
        prefilling = sent < progress.prefill_len
        tail = prefilling and row.num_tokens - row.num_drafts == 1 and (sent > 0 or row.num_drafts > 0)
        sampled = 0
        if row.is_final_or_decode:
            accepted = 0
            if row.num_drafts and not prefilling:
                self._check_proposed(step, progress.last)
                accepted = min(spec.accepted[progress.verified % len(spec.accepted)], row.num_drafts)
                progress.verified += 1
                self.verified.append((request, row.num_drafts))
            sampled = 1 + accepted
        needs = row.num_computed_tokens + row.num_tokens >= progress.prefill_len
        if prefilling and progress.prefill_len + 1 >= spec.prompt_len + spec.max_tokens:
            needs = False
        made = PlanRow(
            request=request,
            incarnation=progress.incarnation,
            step=step.number,
            start=start,
            num_tokens=row.num_tokens,
            num_drafts=row.num_drafts,
            is_spec=self._num_drafts > 0 and (not prefilling or tail),
            first_after_hit=progress.fresh and start > 0,
            num_sampled=sampled,
            needs_output=needs,
            previous=progress.last,
            seed_column=(progress.base - 1) // self._block_size,
            block_size=self._block_size,
        )
        progress.last, progress.fresh = made, False
        return made

    def _check_proposed(self, step: Step, previous: PlanRow | None) -> None:
        """Drafts are proposed after the request's step before this one, unless that step skips them."""
        if previous is not None and self.plans[previous.step].step.skip_drafts:
            raise BrokenRule(
                f"step {step.number} verifies drafts of {previous.request}, but step {previous.step} had none proposed"
            )

    def hashes(self, row: PlanRow) -> list[int]:
        """Hashes of the row's prefixes of 0..start+num_tokens tokens; drafts to be rejected end in junk hashes."""
        stream = self.streams[row.request]
        good = row.end
        last = stream.hash_at(good)
        return stream.hashes[: good + 1] + [junk_hash(last, row.step, j) for j in range(row.num_rejected)]

    def hash_table(self, step: int, rows: tuple[ScheduledRow, ...], width: int) -> HostArray:
        """`hashes` of the rows of a step, as bit patterns: int64 [rows, width], zero past the end. Not to be changed.

        Every rank and every judge asks for the same table; the last few are kept.
        """
        requests = tuple([row.request for row in rows])
        key = step, requests, width
        table = self._tables.get(key)
        if table is None:
            planned = self.plans[step].rows
            unsigned = np.zeros((len(requests), width), dtype=np.uint64)
            for line, request in zip(unsigned, requests):
                values = self.hashes(planned[request])
                line[: len(values)] = values
            if len(self._tables) == KEPT_TABLES:
                del self._tables[next(iter(self._tables))]
            table = self._tables[key] = unsigned.view(np.int64)
        return table

    def known_tokens(self, step: int, row: ScheduledRow) -> list[int]:
        start = self.plans[step].rows[row.request].start
        return self.streams[row.request].slice(0, start + row.num_tokens - row.num_drafts)

    def sample(self, step: int, rows: tuple[ScheduledRow, ...], leaving: Callable[[], HostArray]) -> Sampled:
        """The schedule decides how many drafts are accepted, whatever the forwards have read."""
        plan = self.plans[step]
        planned = [plan.rows[row.request] for row in rows]
        return Sampled(
            [plan.sampled[row.request] for row in rows],
            [row.num_sampled for row in planned],
            [row.num_rejected for row in planned],
        )


class Unhashed(Planner):
    """For runs of the host side alone, where nobody reads hashes because nothing is computed."""

    def hash_table(self, step: int, rows: tuple[ScheduledRow, ...], width: int) -> HostArray:
        return np.zeros((0, 0), dtype=np.int64)
