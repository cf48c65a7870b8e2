"""What a run needs of an engine: `EngineCore` is one, a released scheduler in a child process is another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from stalerow.simulator.engine.core import Delivered
from stalerow.simulator.engine.request import PLAIN, RequestOptions
from stalerow.simulator.engine.step import Step


class Engine(Protocol):
    """See `EngineCore` for what each member means."""

    @property
    def has_requests(self) -> bool: ...

    @property
    def can_schedule(self) -> bool: ...

    @property
    def inflight(self) -> tuple[int, ...]: ...

    @property
    def inflight_steps(self) -> tuple[Step, ...]: ...

    @property
    def starved(self) -> bool: ...

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        max_tokens: int,
        stop_token_ids: Collection[int] = (),
        options: RequestOptions = PLAIN,
    ) -> None: ...

    def abort(self, request_ids: Iterable[str]) -> tuple[str, ...]: ...

    def reset_prefix_cache(self, reset_running_requests: bool) -> bool: ...

    def schedule(self) -> Step: ...

    def process(self, sampled: Mapping[str, Sequence[int]]) -> Delivered: ...
