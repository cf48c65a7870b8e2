"""When prefill is held back so that decodes run in longer stretches (`prefill_schedule_interval`).

Asked by the scheduler at the start of a step and told what came of it. Public source: vLLM 0.33's local prefill
interval; before, only data-parallel engines had one.
"""

from __future__ import annotations

from collections.abc import Iterable

from stalerow.simulator.engine.request import Request


class PrefillCadence:
    """Holds prefill for `interval` executed steps after one that carried it, unless the queue could not be drained."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._executed = 0
        self._last_prefill = -interval
        self._capacity_bound = False

    def holds(self, running: Iterable[Request]) -> bool:
        """Whether the step about to be scheduled may carry no prefill; never without a decode to run instead."""
        if self._interval <= 1 or self._capacity_bound:
            return False
        recent = self._executed + 1 - self._last_prefill < self._interval
        return recent and any(not request.is_prefill_chunk for request in running)

    def admitted(self, waiting: Iterable[Request]) -> None:
        """A pass over the queue that was not held back is over; requests that it skipped do not count as left over."""
        self._capacity_bound = any(not request.was_skipped for request in waiting)

    def scheduled(self, executes: bool, prefills: bool) -> None:
        """The step is decided: whether it carries any tokens, and prompt tokens among them."""
        self._executed += executes
        if prefills:
            self._last_prefill = self._executed
