"""Drives an engine core in tests: the real engine's loop, with as many accepted drafts as a test wants."""

from __future__ import annotations

from collections.abc import Callable

from stalerow.simulator.engine import Delivered, EngineConfig, EngineCore, GroupConfig, ScheduledRow, Step

Accept = Callable[[ScheduledRow], int]


def hybrid(
    block_size: int = 16, recurrent: int = 2, attention_block_size: int | None = None
) -> tuple[GroupConfig, ...]:
    """Groups of a hybrid model: recurrent ones first, then attention with the drafter's layers."""
    states = tuple(GroupConfig("recurrent", block_size) for _ in range(recurrent))
    return (*states, GroupConfig("attention", attention_block_size or block_size, draft=True))


def engine(release: str = "0.33", **options: object) -> EngineCore:
    """An engine core with room for everything unless told otherwise; K is `num_speculative_tokens`."""
    options = {"groups": hybrid(), "num_blocks": 200} | options
    return EngineCore(EngineConfig(**options), release)  # type: ignore[arg-type]


def prompt(length: int, stream: int = 0) -> list[int]:
    """A prompt; two prompts of one stream share all tokens of the shorter one."""
    return [1000 * stream + index for index in range(length)]


class Driver:
    """Schedules while the engine can, processes otherwise; keeps every step and delivery."""

    def __init__(self, core: EngineCore, accept: Accept = lambda row: 0) -> None:
        self.core = core
        self.accept = accept
        self.steps: list[Step] = []
        self.delivered: list[Delivered] = []
        self.outputs: dict[str, int] = {}
        self.reasons: dict[str, str] = {}

    def schedule(self) -> Step:
        """One schedule."""
        self.steps.append(self.core.schedule())
        return self.steps[-1]

    def process(self) -> Delivered:
        """One processed output: every sampling row returns one token and its accepted drafts."""
        step = self.core.inflight_steps[0]
        sampled = {row.request: self.sampled(row) for row in step.rows if row.is_final_or_decode}
        delivered = self.core.process(sampled)
        self.delivered.append(delivered)
        for request, (count, reason) in delivered.outputs.items():
            self.outputs[request] = self.outputs.get(request, 0) + count
            if reason is not None:
                self.reasons[request] = reason
        return delivered

    def sampled(self, row: ScheduledRow) -> list[int]:
        """Tokens for a row: a function of the request's length, so that equal prefixes continue equally."""
        request = self.core.request(row.request)
        length = request.num_tokens if request else 0
        return [500_000 + length + index for index in range(1 + min(self.accept(row), row.num_drafts))]

    def advance(self) -> bool:
        """What the engine's own loop would do next; False if nothing is left."""
        if self.core.can_schedule:
            self.schedule()
        elif self.core.inflight:
            self.process()
        else:
            return False
        return True

    def run(self, limit: int = 2000) -> Driver:
        """Advance until the engine is idle or starved, at most `limit` times."""
        for _ in range(limit):
            if self.core.starved or not self.advance():
                break
        return self

    def rows(self, request: str) -> list[ScheduledRow]:
        """All rows of one request, in step order."""
        return [row for step in self.steps for row in step.rows if row.request == request]

    def chunks(self, request: str) -> list[int]:
        """Token counts of a request's prefill rows: up to the first one that samples."""
        counts = []
        for row in self.rows(request):
            counts.append(row.num_tokens)
            if row.is_final_or_decode:
                break
        return counts

    def admission(self, request: str):  # type: ignore[no-untyped-def]
        """The latest admission of a request."""
        return next(new for step in reversed(self.steps) for new in step.new if new.request == request)
